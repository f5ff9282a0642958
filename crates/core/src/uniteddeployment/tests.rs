//! Stories of one UnitedDeployment, and what holds for every plan.

mod children;
mod properties;
mod rehearsal;
mod reserve;
mod stuck;
mod takeover;

use kruise_api::names::{annotation, event, label};
use serde_json::{Value, json};

use super::WorkloadKind;
use super::world::{World, spec};
use crate::plan::Why;

pub(super) const KINDS: [WorkloadKind; 4] = WorkloadKind::ALL;

pub(super) fn abc() -> Value {
    json!([{"name": "a"}, {"name": "b"}, {"name": "c"}])
}

fn entry<'a>(world: &'a World, subset: &str) -> &'a Value {
    let all = world.status()["subsetStatuses"].as_array().unwrap();
    all.iter().find(|known| known["name"] == subset).unwrap()
}

fn condition(world: &World, type_: &str) -> Value {
    let all = world.status()["conditions"].as_array().unwrap();
    all.iter()
        .find(|known| known["type"] == type_)
        .cloned()
        .unwrap_or_default()
}

#[test]
fn given_subsets_then_each_has_a_workload_and_the_pods_are_divided() {
    for kind in KINDS {
        let mut world = World::with(&spec(kind, 5, &abc()));
        let plan = world.round(usize::MAX);
        let told: Vec<_> = plan.actions.iter().flat_map(|step| &step.chains).collect();
        let told = told
            .iter()
            .flat_map(|chain| &chain.writes)
            .flat_map(|write| &write.succeeded);
        let told: Vec<&str> = told.map(|event| &*event.message).collect();
        assert_eq!(told, [format!("Create 3 Subset ({})", kind.name())]);
        world.rest();
        assert_eq!(world.replicas(kind), [1, 2, 2], "{kind:?}");
        let children = world.children(kind);
        let child = &children["a"];
        let revision = world.status()["updatedRevision"].as_str().unwrap();
        let meta = &child["metadata"];
        assert!(name(child).starts_with("web-a-") && meta["generateName"] == "web-a-");
        assert_eq!(meta["labels"][label::SUBSET_REVISION], revision);
        assert_eq!(meta["annotations"][annotation::SUBSET_PATCH], "");
        assert_eq!(meta["ownerReferences"][0]["kind"], "UnitedDeployment");
        let selected = json!({"app": "web", (label::SUBSET_NAME): "a"});
        assert_eq!(child["spec"]["selector"]["matchLabels"], selected);
        assert_eq!(
            child["spec"]["template"]["metadata"]["labels"][label::SUBSET_REVISION],
            revision
        );
        let status = world.status();
        for (field, count) in [
            ("replicas", 5),
            ("readyReplicas", 5),
            ("updatedReplicas", 5),
            ("updatedReadyReplicas", 5),
        ] {
            assert_eq!(status[field], count, "{field}");
        }
        assert_eq!(status["currentRevision"], revision);
        assert_eq!(status["labelSelector"], "app=web");
        assert_eq!(entry(&world, "c")["replicas"], 2);
        for type_ in ["UnitedDeploymentUpdated", "SubsetProvisioned", "SubsetUpdated"] {
            assert_eq!(condition(&world, type_)["status"], "True", "{type_}");
        }
        world.change(|spec| spec["replicas"] = json!(6));
        world.rest();
        assert_eq!(world.replicas(kind), [2, 2, 2], "{kind:?}");
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

#[test]
fn given_partitions_when_the_template_changes_then_each_subset_goes_as_far_as_it_may() {
    let kind = WorkloadKind::StatefulSet;
    let mut world = World::with(&spec(kind, 6, &json!([{"name": "a"}, {"name": "b"}])));
    world.rest();
    let first = world.status()["updatedRevision"].clone();
    world.change(|spec| {
        spec["updateStrategy"] = json!({"type": "Manual", "manualUpdate": {"partitions": {"a": 2, "b": 0}}});
        spec["template"][kind.field()]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
    });
    // All workloads in one round.
    let plan = world.round(usize::MAX);
    assert_eq!(
        plan.writes()
            .filter(|write| write.object().resource == kind.resource())
            .count(),
        2
    );
    world.rest();
    let second = world.status()["updatedRevision"].clone();
    assert_ne!(first, second);
    let updated = |world: &World, subset: &str| {
        let pods = world.pods_in(subset);
        pods.iter()
            .filter(|pod| pod["metadata"]["labels"][label::SUBSET_REVISION] == second)
            .count()
    };
    assert_eq!((updated(&world, "a"), updated(&world, "b")), (1, 3));
    assert_eq!(
        (&entry(&world, "a")["partition"], &entry(&world, "b")["partition"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(world.status()["currentRevision"], first);
    assert_eq!(
        condition(&world, "UnitedDeploymentUpdated")["reason"],
        "UnitedDeploymentRevisionUpdating"
    );
    let whys = world.plan().why;
    assert!(
        whys.iter()
            .any(|why| why.to_string().contains("The partition of subset a keeps 2 Pods")),
        "{whys:?}"
    );
    // More than there are is as many as there are.
    world.change(|spec| spec["updateStrategy"]["manualUpdate"]["partitions"]["a"] = json!(99));
    world.rest();
    assert_eq!(entry(&world, "a")["partition"], 3);
    world.change(|spec| spec["updateStrategy"]["manualUpdate"]["partitions"]["a"] = json!(-5));
    world.rest();
    assert_eq!(world.status()["currentRevision"], second);
    assert_eq!(condition(&world, "UnitedDeploymentUpdated")["status"], "True");
    // Back to the first template: its revision is used again.
    world.set_image(kind, "nginx:1");
    world.rest();
    assert_eq!(world.status()["updatedRevision"], first);
}

#[test]
fn given_a_total_that_does_not_fit_then_people_are_told_and_nothing_is_touched() {
    let kind = WorkloadKind::CloneSet;
    let subsets = json!([{"name": "a", "replicas": 6}, {"name": "b", "replicas": 4}]);
    let mut world = World::with(&spec(kind, 10, &subsets));
    world.rest();
    world.change(|spec| spec["replicas"] = json!(8));
    let plan = world.round(usize::MAX);
    assert_eq!(plan.events[0].reason, event::FAILED_SPECIFY_SUBSET_REPLICAS);
    assert_eq!(plan.writes().count(), 0);
    assert_eq!(world.replicas(kind), [6, 4]);
    assert!(matches!(plan.why[0], Why::Subsets(_)), "{:?}", plan.why);
    world.rest();
    assert_eq!(world.status()["observedGeneration"], 2);
    assert_eq!(entry(&world, "a")["replicas"], 6);
}

#[test]
fn given_a_patch_then_only_its_subset_has_it_and_there_is_no_new_revision() {
    let kind = WorkloadKind::CloneSet;
    let patch = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let subsets = json!([{"name": "a", "patch": patch("x:1")}, {"name": "b"}]);
    let mut world = World::with(&spec(kind, 4, &subsets));
    world.rest();
    let image = |world: &World, subset: &str| {
        world.children(kind)[subset]["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(
        (image(&world, "a"), image(&world, "b")),
        (json!("x:1"), json!("nginx:1"))
    );
    let before = world.status()["updatedRevision"].clone();
    world.change(|spec| spec["topology"]["subsets"][0]["patch"] = patch("x:2"));
    world.rest();
    assert_eq!(image(&world, "a"), "x:2");
    assert_eq!(world.pods_in("a")[0]["spec"]["containers"][0]["image"], "x:2");
    assert_eq!(world.status()["updatedRevision"], before);
    // A patch that is no object changes nothing.
    world.change(|spec| spec["topology"]["subsets"][0]["patch"] = json!("text"));
    world.rest();
    assert_eq!(image(&world, "a"), "nginx:1");
}

#[test]
fn given_nodes_tolerations_and_limits_then_workloads_have_them() {
    let kind = WorkloadKind::Deployment;
    let expression = json!({"key": "pool", "operator": "In", "values": ["base"]});
    let toleration = json!({"key": "pool", "operator": "Exists"});
    let subsets = json!([
        {"name": "a", "minReplicas": 2, "maxReplicas": 4, "nodeSelectorTerm": {"matchExpressions": [expression]}, "tolerations": [toleration]},
        {"name": "b", "minReplicas": 2, "nodeSelectorTerm": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}},
    ]);
    let mut world = World::with(&spec(kind, 5, &subsets));
    world.change(|spec| {
        let zone = json!({"key": "zone", "operator": "Exists"});
        let terms = json!([{"matchExpressions": [zone]}, {"matchFields": []}]);
        spec["template"][kind.field()]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            ["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": terms});
    });
    world.rest();
    assert_eq!(world.replicas(kind), [3, 2]);
    let children = world.children(kind);
    let required = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = children["a"].pointer(&format!("{required}/nodeSelectorTerms")).unwrap();
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 2);
    assert_eq!(terms[1]["matchExpressions"], json!([expression]));
    assert_eq!(
        children["a"]["spec"]["template"]["spec"]["tolerations"],
        json!([toleration])
    );
    // Of fields nothing is asked.
    let terms = children["b"].pointer(&format!("{required}/nodeSelectorTerms")).unwrap();
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 1);
    for (total, counts) in [(3, [2, 1]), (9, [4, 5])] {
        world.change(|spec| spec["replicas"] = json!(total));
        world.rest();
        assert_eq!(world.replicas(kind), counts);
    }
}

#[test]
fn given_revisions_beyond_the_limit_then_the_oldest_go() {
    let kind = WorkloadKind::CloneSet;
    let mut world = World::with(&spec(kind, 2, &abc()));
    world.change(|spec| spec["revisionHistoryLimit"] = json!(1));
    for image in 1..5 {
        world.set_image(kind, &format!("nginx:{image}"));
        world.rest();
    }
    let observed = world.observed();
    let mut numbers: Vec<i64> = observed.revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4]);
    assert!(
        observed
            .revisions
            .iter()
            .all(|revision| revision.metadata.label("app") == Some("web"))
    );
}
