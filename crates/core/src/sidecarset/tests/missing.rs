use super::*;

/// A world with a Pod that was made later, without the containers.
fn forgotten(strategy: &Value, pods: usize) -> World {
    let mut world = world(2, strategy);
    world.cluster.pass(60);
    for number in 0..pods {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}]);
        world.cluster.put(
            Pod::RESOURCE,
            json!({
                "metadata": {"name": format!("x{number}"), "namespace": "ns", "labels": {"app": "web"}, "ownerReferences": owner},
                "spec": {"containers": [{"name": "main", "image": "app:1"}], "readinessGates": []},
                "status": {"phase": "Pending"},
            }),
        );
    }
    world
}

fn evicted(plan: &Plan) -> Vec<&str> {
    let evicted = plan.writes().filter(|action| matches!(action, Action::Evict { .. }));
    evicted.map(|action| action.object().name.as_str()).collect()
}

#[test]
fn given_a_pod_without_its_sidecars_then_the_set_tells_it_until_it_is_gone() {
    let mut world = forgotten(&json!({}), 1);
    world.settle();
    assert_eq!(
        (world.status("podsWithoutSidecars"), world.status("matchedPods")),
        (json!(1), json!(2))
    );
    let condition = &world.status("conditions")[0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodsWithoutSidecars"), &json!("True"))
    );
    assert!(condition["message"].as_str().unwrap().contains("ns/x0"));
    let plan = super::super::plan(&world.observe(), &world.env());
    assert!(json!(plan).to_string().contains("withoutSidecars") && plan.is_idle());
    world.cluster.delete(Pod::RESOURCE, "x0");
    world.settle();
    assert_eq!(world.status("podsWithoutSidecars"), Value::Null);
    assert_eq!(world.status("conditions")[0]["status"], "False");
}

#[test]
fn given_pods_that_lack_nothing_then_none_is_told() {
    let edits: [fn(&mut Value); 6] = [
        |pod| pod["metadata"]["creationTimestamp"] = json!("2024-05-01T09:00:00Z"),
        |pod| pod["metadata"]["labels"]["app"] = json!("other"),
        |pod| pod["metadata"]["namespace"] = json!("kube-system"),
        |pod| pod["metadata"]["namespace"] = json!("kruise-system"),
        |pod| pod["spec"]["containers"][0]["name"] = json!("log"),
        |pod| pod["status"]["phase"] = json!("Succeeded"),
    ];
    for edit in edits {
        let mut world = forgotten(&json!({}), 1);
        world.cluster.edit(Pod::RESOURCE, "x0", edit);
        world.round();
        assert_eq!(
            (world.status("podsWithoutSidecars"), world.status("conditions")),
            (Value::Null, Value::Null)
        );
    }
    let mut paused = forgotten(&json!({}), 1);
    paused.edit_spec(&json!({"injectionStrategy": {"paused": true}}));
    paused.settle();
    assert_eq!(paused.status("podsWithoutSidecars"), Value::Null);
}

#[test]
fn given_the_annotation_then_pods_are_evicted_a_few_at_a_time() {
    let mut world = forgotten(&json!({"maxUnavailable": 2}), 5);
    world.cluster.settle();
    assert_eq!(evicted(&world.round()), [""; 0], "nobody asked for it");
    world
        .cluster
        .edit(kruise_api::sidecarset::v1beta1::SidecarSet::RESOURCE, "log", |set| {
            set["metadata"]["annotations"]["apps.kruise.io/sidecarset-evict-uninjected-pods"] = json!("true");
        });
    world.cluster.edit(Pod::RESOURCE, "x4", |pod| {
        pod["metadata"]["ownerReferences"] = json!([]);
    });
    let plan = world.round();
    assert_eq!(evicted(&plan), ["x0", "x1"]);
    assert_eq!(evicted(&world.round()), [""; 0], "those are on their way out");
    world.cluster.settle();
    assert_eq!(evicted(&world.round()), ["x2", "x3"]);
    world.cluster.settle();
    assert_eq!(evicted(&world.round()), [""; 0], "nobody would make the last one again");
}
