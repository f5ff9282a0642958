//! What a change would come to, beside what it comes to in the model cluster.

use super::*;
use crate::rehearsal::rehearse;

#[test]
fn given_a_new_template_then_nodes_get_their_pods_anew_one_after_the_other() {
    let mut world = World::settled(&json!({}), &NODES);
    world.edit_spec(&json!({ "template": template("agent:2") }));
    let rehearsal = rehearse(world.observe(), &world.next_env());
    let mut places: Vec<String> = rehearsal.waves.iter().flat_map(|wave| wave.places.clone()).collect();
    places.sort();
    assert_eq!(places, ["on a", "on b", "on c"], "{rehearsal:#?}");
    assert_eq!(
        (rehearsal.updated, rehearsal.least_ready, rehearsal.most_pods),
        (3, 2, 3)
    );
    assert!(rehearsal.waves.iter().all(|wave| wave.deleted.len() <= 1));
}

#[test]
fn given_a_new_image_in_place_then_no_pod_is_made() {
    let mut world = World::settled(&in_place(&json!({})), &NODES);
    world.edit_spec(&json!({ "template": template("agent:2") }));
    let rehearsal = rehearse(world.observe(), &world.next_env());
    let updated: Vec<usize> = rehearsal.waves.iter().map(|wave| wave.in_place.len()).collect();
    assert_eq!((updated, rehearsal.updated), (vec![1, 1, 1], 3), "{rehearsal:#?}");
}
