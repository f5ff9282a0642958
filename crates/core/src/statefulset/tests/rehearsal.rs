//! What a change would come to, beside what it comes to in the model cluster.

use super::super::fixtures::template;
use super::*;
use crate::rehearsal::{Wave, rehearse};

#[test]
fn given_a_new_template_then_pods_are_made_anew_from_the_highest_ordinal_under_their_names() {
    let mut world = World::new(&json!({}));
    world.run();
    world.image("nginx:2");
    let rehearsal = rehearse(world.observe(), &world.env_now());
    let anew = |ordinal: i32| {
        let name = format!("web-{ordinal}");
        let deleted = Wave {
            deleted: vec![name.clone()],
            ..Wave::default()
        };
        let made = Wave {
            created: 1,
            places: vec![name],
            ..Wave::default()
        };
        [deleted, made]
    };
    assert_eq!(rehearsal.waves, [anew(2), anew(1), anew(0)].concat());
    assert_eq!(
        (rehearsal.updated, rehearsal.least_ready, rehearsal.most_pods),
        (3, 2, 3)
    );
    world.run();
    assert_eq!(world.images().len(), rehearsal.after.pods);
}

#[test]
fn given_more_replicas_with_claims_then_both_are_made_in_order() {
    let spec =
        json!({ "replicas": 1, "template": template("nginx:1"), "volumeClaimTemplates": [claim_template("1Gi")] });
    let mut world = World::new(&spec);
    world.run();
    world.edit_spec(&json!({ "replicas": 3 }));
    let rehearsal = rehearse(world.observe(), &world.env_now());
    let places: Vec<String> = rehearsal.waves.iter().flat_map(|wave| wave.places.clone()).collect();
    assert_eq!(places, ["web-1", "web-2"], "{rehearsal:#?}");
    let also: Vec<(&str, usize)> = rehearsal.also.iter().map(|also| (&*also.kind, also.count)).collect();
    assert_eq!(also, [("PersistentVolumeClaim", 2)]);
}
