//! Workloads that users and others get at: edited, deleted, taken away, of another kind.

use kruise_api::kind::Kind as _;
use kruise_api::names::{event, label};
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;
use serde_json::{Value, json};

use super::super::WorkloadKind;
use super::super::world::{World, spec};
use super::{abc, name};
use crate::plan::Action;

const KIND: WorkloadKind = WorkloadKind::CloneSet;

fn resting(replicas: i32) -> World {
    let mut world = World::with(&spec(KIND, replicas, &abc()));
    world.rest();
    world
}

#[test]
fn given_a_subset_removed_then_its_workload_goes_and_its_entry() {
    let mut world = resting(6);
    world.change(|spec| spec["topology"]["subsets"] = json!([{"name": "a"}, {"name": "b"}]));
    let plan = world.round(usize::MAX);
    let told = plan
        .actions
        .iter()
        .flat_map(|step| &step.chains)
        .flat_map(|chain| &chain.writes);
    let told: Vec<&str> = told
        .flat_map(|write| &write.succeeded)
        .map(|event| &*event.message)
        .collect();
    assert_eq!(told, ["Delete 1 Subset (CloneSet)"]);
    world.rest();
    assert_eq!(world.replicas(KIND), [3, 3]);
    assert_eq!(world.status()["subsetStatuses"].as_array().unwrap().len(), 2);
    // None at all.
    world.change(|spec| spec["topology"] = json!({}));
    world.rest();
    assert!(world.all(KIND).is_empty());
    assert!(
        world
            .plan()
            .why
            .iter()
            .any(|why| why.to_string().contains("nowhere to run"))
    );
}

#[test]
fn given_another_kind_of_template_then_new_workloads_come_and_the_old_ones_go() {
    for from in WorkloadKind::ALL {
        for to in WorkloadKind::ALL {
            if from == to {
                continue;
            }
            let mut world = World::with(&spec(from, 3, &abc()));
            world.rest();
            world.change(|spec| spec["template"] = super::super::world::template(to, "nginx:1"));
            world.rest();
            assert!(world.all(from).is_empty(), "{from:?} {to:?}");
            assert_eq!(world.replicas(to), [1, 1, 1]);
        }
    }
}

#[test]
fn given_a_workload_deleted_by_hand_then_it_is_made_anew() {
    let mut world = resting(3);
    let children = world.children(KIND);
    world.cluster.delete(KIND.resource(), name(&children["b"]));
    world.rest();
    assert_eq!(world.replicas(KIND), [1, 1, 1]);
    assert_ne!(name(&world.children(KIND)["b"]), name(&children["b"]));
}

#[test]
fn given_a_workload_on_its_way_out_then_the_next_one_waits_for_its_end() {
    let mut world = resting(3);
    let old = name(&world.children(KIND)["b"]).to_owned();
    let now = world.cluster.now.to_string();
    world.cluster.edit(KIND.resource(), &old, |child| {
        child["metadata"]["deletionTimestamp"] = json!(now);
    });
    world.rest();
    assert_eq!(world.all(KIND).len(), 3);
    assert!(world.plan().why.iter().any(|why| why.to_string().contains(&old)));
    world.cluster.objects.remove(&(KIND.resource(), old.clone()));
    world.rest();
    assert_ne!(name(&world.children(KIND)["b"]), old);
}

#[test]
fn given_replicas_and_partition_edited_by_hand_then_they_are_put_back_and_the_rest_is_left_alone() {
    let mut world = resting(3);
    let child = name(&world.children(KIND)["a"]).to_owned();
    world.cluster.edit(KIND.resource(), &child, |child| {
        child["spec"]["replicas"] = json!(7);
        child["spec"]["minReadySeconds"] = json!(5);
    });
    let plan = world.round(usize::MAX);
    let writes: Vec<_> = plan.writes().collect();
    let [Action::Patch { patch, .. }] = &writes[..] else {
        panic!("{writes:?}")
    };
    assert_eq!(patch.document(), &json!({"spec": {"replicas": 1}}));
    world.rest();
    world.cluster.edit(KIND.resource(), &child, |child| {
        child["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!("50%");
    });
    world.rest();
    let child = &world.children(KIND)["a"];
    assert_eq!(child["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
    assert_eq!(child["spec"]["minReadySeconds"], 5);
    // With a new template nothing of it stays.
    world.set_image(KIND, "nginx:2");
    world.rest();
    assert_eq!(world.children(KIND)["a"]["spec"].get("minReadySeconds"), None);
}

#[test]
fn given_defaults_that_others_fill_in_then_they_are_not_fought() {
    let mut world = resting(3);
    for child in world.all(KIND) {
        world.cluster.edit(KIND.resource(), name(&child), |child| {
            child["spec"]["revisionHistoryLimit"] = json!(10);
            child["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
            child["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        });
    }
    assert!(world.plan().is_idle());
    // Not even while Pods have still to be updated.
    world.change(|spec| {
        spec["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": 1, "b": 1, "c": 1}}});
    });
    world.set_image(KIND, "nginx:2");
    world.rest();
    for child in world.all(KIND) {
        world.cluster.edit(KIND.resource(), name(&child), |child| {
            child["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
        });
    }
    assert!(world.plan().is_idle());
    // But what is missing is put back.
    let child = name(&world.children(KIND)["a"]).to_owned();
    world.cluster.edit(KIND.resource(), &child, |child| {
        child["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other:1");
    });
    world.rest();
    let image = &world.children(KIND)["a"]["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, "nginx:2");
}

#[test]
fn given_a_workload_without_its_label_then_its_selector_says_the_subset() {
    let mut world = resting(3);
    let child = name(&world.children(KIND)["a"]).to_owned();
    world.cluster.edit(KIND.resource(), &child, |child| {
        child["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove(label::SUBSET_NAME);
    });
    assert!(
        world
            .plan()
            .writes()
            .all(|write| !matches!(write, Action::Create { .. }))
    );
    world.set_image(KIND, "nginx:2");
    world.rest();
    assert_eq!(name(&world.children(KIND)["a"]), child);
    // One that says it nowhere holds everything up.
    world.cluster.edit(KIND.resource(), &child, |child| {
        child["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove(label::SUBSET_NAME);
        child["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    });
    let plan = world.plan();
    assert!(plan.is_idle());
    let reasons: Vec<&str> = plan.events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, [event::FAILED_FIND_SUBSETS, event::FAILED_FIND_SUBSETS_SPACED]);
}

fn stray(subset: Option<&str>, owner: Option<&str>) -> Value {
    let mut labels = json!({"app": "web"});
    let mut selected = json!({"app": "web"});
    if let Some(subset) = subset {
        labels[label::SUBSET_NAME] = json!(subset);
        selected[label::SUBSET_NAME] = json!(subset);
    }
    let mut meta = json!({"name": "stray", "namespace": "shop", "uid": "u-stray", "labels": labels});
    if let Some(owner) = owner {
        meta["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "name": "x",
            "uid": owner, "controller": true}]);
    }
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:0"}]}});
    json!({"metadata": meta, "spec": {"replicas": 2, "selector": {"matchLabels": selected}, "template": pod}})
}

#[test]
fn given_workloads_of_nobody_then_those_of_a_subset_are_adopted() {
    let mut world = World::with(&spec(KIND, 3, &abc()));
    world.cluster.put(KIND.resource(), stray(Some("b"), None));
    let plan = world.round(usize::MAX);
    assert!(
        plan.writes()
            .all(|write| !matches!(write, Action::Create { object, .. } if object.resource == KIND.resource()))
    );
    world.rest();
    assert_eq!(world.replicas(KIND), [1, 1, 1]);
    let child = &world.children(KIND)["b"];
    assert_eq!(
        (name(child), &child["metadata"]["ownerReferences"][0]["uid"]),
        ("stray", &json!("u-web"))
    );
    // Not what says no subset, is somebody else's, or is of another kind.
    for other in [stray(None, None), stray(Some("b"), Some("u-else"))] {
        let mut world = World::with(&spec(KIND, 3, &abc()));
        world.cluster.put(KIND.resource(), other.clone());
        world.rest();
        assert_eq!(world.all(KIND).len(), 4);
        let kept = world.cluster.get(KIND.resource(), "stray").unwrap();
        assert_eq!(
            kept["metadata"].get("ownerReferences"),
            other["metadata"].get("ownerReferences")
        );
    }
    let mut world = World::with(&spec(KIND, 3, &abc()));
    world
        .cluster
        .put(WorkloadKind::Deployment.resource(), stray(Some("b"), None));
    world.rest();
    assert_eq!(world.all(WorkloadKind::Deployment).len(), 1);
    // Nothing is adopted before the API server confirms that the object is there.
    let mut world = World::with(&spec(KIND, 3, &abc()));
    world.cluster.put(KIND.resource(), stray(Some("b"), None));
    let mut observed = world.observed();
    observed.is_confirmed = false;
    let plan = super::super::plan(&observed, &world.env());
    assert!(plan.writes().all(|write| write.object().resource != KIND.resource()));
}

#[test]
fn given_two_workloads_of_a_subset_then_the_older_one_stays() {
    let mut world = resting(3);
    let kept = name(&world.children(KIND)["a"]).to_owned();
    world.cluster.pass(10);
    world.cluster.put(KIND.resource(), stray(Some("a"), Some("u-web")));
    world.rest();
    assert_eq!(name(&world.children(KIND)["a"]), kept);
    assert_eq!(world.all(KIND).len(), 3);
}

#[test]
fn given_a_selector_that_chooses_them_no_more_then_workloads_are_released() {
    let mut world = resting(3);
    world.change(|spec| {
        spec["selector"] = json!({"matchLabels": {"app": "web", "new": "1"}});
        spec["template"][KIND.field()]["metadata"]["labels"]["new"] = json!("1");
    });
    world.rest();
    let all = world.all(KIND);
    assert_eq!(all.len(), 6);
    let free = all.iter().filter(|child| {
        child["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    });
    assert_eq!(free.count(), 3);
}

#[test]
fn given_a_selector_without_labels_then_workloads_are_made_all_the_same() {
    let mut given = spec(KIND, 3, &abc());
    given["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
    let mut world = World::with(&given);
    world.rest();
    let child = &world.children(KIND)["a"];
    assert_eq!(
        child["spec"]["selector"]["matchLabels"],
        json!({(label::SUBSET_NAME): "a"})
    );
}

#[test]
fn given_refusals_then_conditions_say_so_until_they_are_over() {
    let mut world = World::with(&spec(KIND, 3, &abc()));
    world.cluster.refuses = Some(
        |_, action| matches!(action, Action::Create { object, .. } if object.resource == KIND.resource() && object.name.contains("-b-")),
    );
    for _ in 0..4 {
        world.settle();
        world.round(usize::MAX);
    }
    let condition = super::condition(&world, "SubsetProvisioned");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Error"))
    );
    world.cluster.refuses = None;
    world.rest();
    assert_eq!(super::condition(&world, "SubsetProvisioned")["status"], "True");
    assert_eq!(world.replicas(KIND), [1, 1, 1]);
}

#[test]
fn given_an_object_that_cannot_be_understood_then_nothing_is_done() {
    for broken in [
        json!({"template": {}}),
        json!({"template": {"cloneSetTemplate": {"spec": {}}, "deploymentTemplate": {"spec": {}}}}),
        json!({"selector": {}}),
        json!({"template": {"deploymentTemplate": {"spec": "text"}}}),
    ] {
        let mut given = spec(KIND, 3, &abc());
        for (key, value) in broken.as_object().unwrap() {
            given[key] = value.clone();
        }
        let world = World::with(&given);
        let plan = world.plan();
        assert!(plan.is_idle() && !plan.why.is_empty(), "{broken}");
    }
    let mut world = resting(3);
    world.cluster.edit(UnitedDeployment::RESOURCE, "web", |united| {
        united["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    });
    world.change(|spec| spec["replicas"] = json!(9));
    assert!(world.plan().is_idle());
}
