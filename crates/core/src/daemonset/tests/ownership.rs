//! Whose Pods and revisions are whose.

use super::*;

#[test]
fn given_pods_of_an_older_release_then_they_are_kept_as_they_are() {
    let mut world = World::settled(&json!({}), &NODES);
    let names: Vec<String> = world
        .pods()
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for name in names {
        world.edit_pod(&name, |pod| {
            pod["metadata"]["ownerReferences"] = json!([owner("apps.kruise.io/v1alpha1")]);
        });
    }
    assert_eq!(world.run(), 0);
}

#[test]
fn given_a_pod_that_nobody_owns_then_it_is_adopted_and_no_second_one_is_made() {
    let mut world = World::settled(&json!({}), &["a", "b"]);
    let name = world.pod_on("a");
    world.edit_pod(&name, |pod| pod["metadata"]["ownerReferences"] = json!([]));
    let plan = world.round();
    assert_eq!((created(&plan), deleted(&plan)), (0, 0));
    world.run();
    assert_eq!(world.pod_on("a"), name);
    let pod = world.cluster.get(Pod::RESOURCE, &name).unwrap();
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
}

#[test]
fn given_a_pod_that_no_longer_matches_then_it_is_let_go_and_replaced() {
    let mut world = World::settled(&json!({}), &["a"]);
    let name = world.pod_on("a");
    world.edit_pod(&name, |pod| pod["metadata"]["labels"]["app"] = json!("other"));
    world.run();
    assert_eq!(world.living().len(), 2);
    let pod = world.cluster.get(Pod::RESOURCE, &name).unwrap();
    assert_eq!(pod["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn given_a_template_generation_then_pods_carry_it_and_count_as_updated_by_it() {
    let mut world = World::new(&json!({}), &["a"]);
    world.cluster.edit(DaemonSet::RESOURCE, "agent", |set| {
        set["metadata"]["annotations"] = json!({ "deprecated.daemonset.template.generation": "7" });
    });
    world.run();
    let name = world.pod_on("a");
    let labels = &world.cluster.get(Pod::RESOURCE, &name).unwrap()["metadata"]["labels"];
    assert_eq!(labels["pod-template-generation"], "7");
    world.edit_pod(&name, |pod| {
        pod["metadata"]["labels"]["controller-revision-hash"] = json!("other");
    });
    world.run();
    assert_eq!(
        (world.pod_on("a"), world.status("updatedNumberScheduled")),
        (name, json!(1))
    );
}

#[test]
fn given_revisions_that_say_the_same_then_the_newest_is_kept_and_pods_get_its_hash() {
    let mut world = World::settled(&json!({}), &["a", "b"]);
    let before = world.uids();
    let mut twin = world.cluster.all(ControllerRevision::RESOURCE).next().unwrap().clone();
    twin["metadata"]["name"] = json!("agent-twin");
    twin["metadata"]["labels"]["controller-revision-hash"] = json!("twin");
    twin["metadata"].as_object_mut().unwrap().remove("uid");
    twin["revision"] = json!(2);
    world.cluster.put(ControllerRevision::RESOURCE, twin);
    world.run();
    let names: Vec<&Value> = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .map(|revision| &revision["metadata"]["name"])
        .collect();
    assert_eq!(names, ["agent-twin"]);
    assert_eq!((world.status("updateRevision"), world.uids()), (json!("twin"), before));
    for pod in world.pods() {
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "twin");
    }
}

#[test]
fn given_a_revision_without_the_label_then_it_gets_its_name() {
    let mut world = World::settled(&json!({}), &["a"]);
    world.image("agent:2");
    world.run();
    let old = world
        .cluster
        .all(ControllerRevision::RESOURCE)
        .find(|revision| revision["revision"] == 1)
        .unwrap();
    let name = old["metadata"]["name"].as_str().unwrap().to_owned();
    world.cluster.edit(ControllerRevision::RESOURCE, &name, |revision| {
        revision["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("controller-revision-hash");
        revision["metadata"]["ownerReferences"] = json!([]);
    });
    world.run();
    let old = world.cluster.get(ControllerRevision::RESOURCE, &name).unwrap();
    assert_eq!(old["metadata"]["labels"]["controller-revision-hash"], name);
    assert_eq!(old["metadata"]["ownerReferences"][0]["name"], "agent");
}
