//! What a change would come to, beside what it comes to in the model cluster.

use super::*;
use crate::rehearsal::{Counts, Rehearsal, Wave, rehearse, rehearse_within};

fn settled(spec: &Value) -> World {
    let mut world = World::new(spec);
    world.run();
    world
}

/// Rehearses a change, makes it, and sees that it comes to the same.
fn changed(world: &mut World, spec: &Value) -> Rehearsal {
    world.edit_spec(spec);
    let rehearsal = rehearse(world.observe(), &world.next_env());
    let before: Vec<String> = world.pod_names();
    world.run();
    let after = world.pod_names();
    let gone = before.iter().filter(|name| !after.contains(name)).count();
    let deleted: usize = rehearsal.waves.iter().map(|wave| wave.deleted.len()).sum();
    assert_eq!((rehearsal.after.pods, deleted), (after.len(), gone), "{rehearsal:#?}");
    rehearsal
}

fn in_place(name: &str) -> Wave {
    Wave {
        in_place: vec![name.to_owned()],
        ..Wave::default()
    }
}

#[test]
fn given_an_image_when_it_changes_then_pods_follow_in_place_within_the_budget_and_in_order() {
    let mut world = settled(&json!({}));
    let rehearsal = changed(&mut world, &json!({ "template": template("nginx:2") }));
    let order: Vec<String> = rehearsal.waves.iter().flat_map(|wave| wave.in_place.clone()).collect();
    assert_eq!(
        rehearsal.waves,
        order.iter().map(|name| in_place(name)).collect::<Vec<_>>()
    );
    let mut names = order;
    names.sort();
    assert_eq!(names, world.pod_names());
    let three = Counts { pods: 3, ready: 3 };
    assert_eq!(
        (rehearsal.before, rehearsal.after, rehearsal.updated),
        (three, three, 3)
    );
    assert_eq!((rehearsal.least_ready, rehearsal.most_pods), (2, 3));
    assert_eq!((rehearsal.at_last, rehearsal.also), (vec![], vec![]));
}

#[test]
fn given_a_partition_then_it_ends_there_and_says_so() {
    let mut world = settled(&json!({}));
    let strategy = json!({ "rollingUpdate": { "partition": 2 } });
    let rehearsal = changed(
        &mut world,
        &json!({ "template": template("nginx:2"), "updateStrategy": strategy }),
    );
    assert_eq!((rehearsal.waves.len(), rehearsal.updated), (1, 1));
    assert!(
        rehearsal
            .at_last
            .contains(&Why::Rollout(why::Rollout::Partition { keeps: 2 })),
        "{rehearsal:?}"
    );
}

#[test]
fn given_a_change_that_cannot_be_made_in_place_then_pods_are_made_anew_one_by_one() {
    let mut world = settled(&json!({}));
    let mut template = template("nginx:1");
    template["spec"]["containers"][0]["command"] = json!(["serve"]);
    let rehearsal = changed(&mut world, &json!({ "template": template }));
    let created: usize = rehearsal.waves.iter().map(|wave| wave.created).sum();
    assert_eq!(
        (created, rehearsal.updated, rehearsal.least_ready),
        (3, 3, 2),
        "{rehearsal:#?}"
    );
    assert!(
        rehearsal
            .waves
            .iter()
            .all(|wave| wave.in_place.is_empty() && wave.deleted.len() <= 1)
    );
    assert!(
        rehearsal.waves.iter().all(|wave| wave.places.is_empty()),
        "names are chance"
    );
}

#[test]
fn given_replicas_when_they_change_then_pods_come_and_go_at_once() {
    let mut world = settled(&json!({}));
    let more = changed(&mut world, &json!({ "replicas": 5 }));
    let expected = Wave {
        created: 2,
        ..Wave::default()
    };
    assert_eq!((more.waves, more.most_pods), (vec![expected], 5));
    let fewer = changed(&mut world, &json!({ "replicas": 1 }));
    assert_eq!(fewer.waves.iter().map(|wave| wave.deleted.len()).sum::<usize>(), 4);
    assert_eq!(fewer.least_ready, 1);
}

#[test]
fn given_a_pause_then_nothing_happens_and_the_pause_is_why() {
    let mut world = settled(&json!({ "updateStrategy": { "rollingUpdate": { "paused": true } } }));
    let rehearsal = changed(&mut world, &json!({ "template": template("nginx:2") }));
    assert_eq!((rehearsal.waves, rehearsal.updated), (vec![], 0));
    assert!(!rehearsal.at_last.is_empty());
}

#[test]
fn given_a_pod_that_is_not_ready_then_it_goes_first_and_only_what_waits_for_it_is_assumed() {
    let mut world = settled(&json!({ "replicas": 2 }));
    let broken = world.pod_names().remove(1);
    world.image("bad:1");
    world.run();
    assert_eq!(world.cluster.counts().available, 1, "the budget is used up");
    world.edit_spec(&json!({ "template": template("nginx:3") }));
    let rehearsal = rehearse(world.observe(), &world.next_env());
    assert_eq!(
        (rehearsal.before.ready, rehearsal.after.ready),
        (1, 2),
        "{rehearsal:#?}"
    );
    assert_eq!((rehearsal.updated, rehearsal.least_ready), (2, 1), "{rehearsal:#?}");
    assert!(rehearsal.waves.iter().any(|wave| wave.in_place.contains(&broken)));
}

#[test]
fn given_hooks_then_they_are_assumed_to_answer() {
    let hook = json!({ "inPlaceUpdate": { "labelsHandler": { "block": "yes" } } });
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["block"] = json!("yes");
    let mut world = settled(&json!({ "replicas": 1, "lifecycle": hook, "template": labelled }));
    labelled["spec"]["containers"][0]["image"] = json!("nginx:2");
    world.edit_spec(&json!({ "template": labelled }));
    let rehearsal = rehearse(world.observe(), &world.next_env());
    let pod = &world.pod_names()[0];
    let answers = |wave: &&Wave| wave.hooks_answered == [pod.as_str()];
    assert_eq!(rehearsal.waves.iter().filter(answers).count(), 2, "{rehearsal:#?}");
    assert_eq!((rehearsal.updated, rehearsal.after.ready), (1, 1), "{rehearsal:#?}");
}

#[test]
fn given_more_to_do_than_is_decent_then_it_is_cut_short() {
    let mut world = settled(&json!({}));
    world.image("nginx:2");
    let rehearsal = rehearse_within(10, world.observe(), &world.next_env());
    assert!(rehearsal.is_cut_short && rehearsal.updated < 3, "{rehearsal:#?}");
    assert!(!rehearse(world.observe(), &world.next_env()).is_cut_short);
}

#[test]
fn given_a_rehearsal_then_its_json_says_the_same_and_nothing_that_users_wrote() {
    let mut world = settled(&json!({}));
    world.image("nginx:secret");
    let rehearsal = rehearse(world.observe(), &world.next_env());
    let text = serde_json::to_string(&rehearsal).unwrap();
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(serde_json::from_str::<Rehearsal>(&text).unwrap(), rehearsal);
}

#[test]
fn given_pods_that_were_made_under_recreate_when_the_policy_changes_with_the_image_then_they_follow_in_place() {
    let recreate = json!({ "rollingUpdate": { "podUpdatePolicy": "Recreate" } });
    let mut world = settled(&json!({ "updateStrategy": recreate }));
    let in_place = json!({ "rollingUpdate": { "podUpdatePolicy": "InPlaceIfPossible", "partition": 1 } });
    let rehearsal = changed(
        &mut world,
        &json!({ "template": template("nginx:2"), "updateStrategy": in_place }),
    );
    let in_place: usize = rehearsal.waves.iter().map(|wave| wave.in_place.len()).sum();
    assert_eq!(in_place, 2, "{rehearsal:#?}");
}
