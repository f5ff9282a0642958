//! UnitedDeployments on real nodes: each subset's Pods run on its nodes, are updated in place, and get over an image that cannot be pulled.

use std::collections::BTreeMap;

use crate::*;

const CLONE_SET: &str = "cloneSetTemplate";
const STATEFUL_SET: &str = "statefulSetTemplate";

fn on_node(name: &str, node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({"name": name, "nodeSelectorTerm": term})
}

/// Creates `web` with a template of this kind, whose spec has more than Pods.
async fn create(stage: &Stage, template: &str, more: &Value, replicas: i32, subsets: &[Value]) {
    let labels = json!({"app": "web"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {
        "containers": [container("main", None)], "volumes": [{"name": "told", "emptyDir": {}}], "terminationGracePeriodSeconds": 1,
    }});
    let mut spec = json!({"selector": {"matchLabels": labels}, "template": pod});
    kruise_api::merge_patch::merge(&mut spec, more);
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels}, "topology": {"subsets": subsets},
            "template": {(template): {"metadata": {"labels": labels}, "spec": spec}},
        },
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    stage.sets.create(&PostParams::default(), &object).await.unwrap();
}

async fn set_image(stage: &Stage, template: &str, image: &str) {
    stage
        .change("web", |spec| {
            spec["template"][template]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        })
        .await;
}

/// Waits until as many Pods as there should be are updated and ready; returns them by name.
async fn done(stage: &Stage) -> BTreeMap<String, Pod> {
    eventually(PATIENCE, "all Pods are updated and ready", || async {
        let live = stage.sets.get("web").await?;
        let (wanted, status) = (&live.data["spec"]["replicas"], &live.data["status"]);
        let is_seen = status["observedGeneration"].as_i64() == live.metadata.generation;
        let counts = ["replicas", "readyReplicas", "updatedReadyReplicas"];
        let is_done = counts.iter().all(|count| status[count] == *wanted);
        (is_seen && is_done && status["currentRevision"] == status["updatedRevision"])
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{status:#}")))
    })
    .await;
    let pods = stage.all("web").await.into_iter();
    pods.map(|pod| (pod.name_any(), pod)).collect()
}

fn runs_image(pod: &Pod, image: &str) -> bool {
    status(pod, "main").image.ends_with(image)
}

#[test]
fn given_subsets_on_nodes_then_their_pods_run_there_and_are_updated_in_place_one_subset_after_the_other() {
    run_test(DEADLINE, async {
        let stage = Stage::of("UnitedDeployment", "united-nodes").await;
        let in_place = json!({"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}}});
        let subsets = [on_node("one", "node1"), on_node("two", "node2")];
        create(&stage, CLONE_SET, &in_place, 4, &subsets).await;
        let before = done(&stage).await;
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
        let subset = |pod: &Pod| pod.labels()["apps.kruise.io/subset-name"].clone();
        let mut places: Vec<_> = before.values().map(|pod| (subset(pod), node(pod))).collect();
        places.sort();
        let expected = [("one", "node1"), ("one", "node1"), ("two", "node2"), ("two", "node2")];
        assert_eq!(
            places,
            expected.map(|(subset, node)| (subset.to_owned(), node.to_owned()))
        );
        stage
            .change("web", |spec| {
                spec["updateStrategy"] =
                    json!({"type": "Manual", "manualUpdate": {"partitions": {"one": 0, "two": 2}}});
            })
            .await;
        set_image(&stage, CLONE_SET, "busybox:1.36").await;
        eventually(PATIENCE, "the first subset runs the new image", || async {
            let pods = stage.all("web").await;
            let is_ready = |pod: &Pod| condition(pod, "Ready") == Some("True");
            let image = |pod: &Pod| {
                if subset(pod) == "one" {
                    "busybox:1.36"
                } else {
                    "busybox:1.35"
                }
            };
            let is_so = pods.len() == 4 && pods.iter().all(|pod| is_ready(pod) && runs_image(pod, image(pod)));
            is_so
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{} Pods", pods.len())))
        })
        .await;
        stage
            .change("web", |spec| {
                spec["updateStrategy"]["manualUpdate"]["partitions"]["two"] = json!(0);
            })
            .await;
        let after = done(&stage).await;
        for (name, pod) in &after {
            assert_eq!(identity(pod), identity(&before[name]));
            assert!(runs_image(pod, "busybox:1.36"), "{name}");
            assert_eq!(status(pod, "main").restart_count, 1, "{name}");
        }
    });
}

#[test]
fn given_a_stateful_set_of_kubernetes_with_an_image_that_cannot_be_pulled_when_it_is_mended_then_it_goes_on() {
    run_test(DEADLINE, async {
        let stage = Stage::of("UnitedDeployment", "united-stuck").await;
        create(
            &stage,
            STATEFUL_SET,
            &json!({"serviceName": "web"}),
            2,
            &[on_node("one", "node1")],
        )
        .await;
        let before = done(&stage).await;
        set_image(&stage, STATEFUL_SET, "busybox:is-not-there").await;
        let broken = eventually(PATIENCE, "a Pod cannot pull its image", || async {
            let pods = stage.all("web").await.into_iter();
            let waits = |pod: &Pod| {
                let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
                let mut waiting = statuses
                    .into_iter()
                    .flatten()
                    .filter_map(|status| status.state?.waiting?.reason);
                waiting.any(|reason| ["ErrImagePull", "ImagePullBackOff"].contains(&&*reason))
            };
            let mut waiting = pods.filter(waits);
            waiting.next().ok_or_else(|| NotYet::new("none"))
        })
        .await;
        assert!(before.contains_key(&broken.name_any()));
        set_image(&stage, STATEFUL_SET, "busybox:1.36").await;
        let after = done(&stage).await;
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(after.values().all(|pod| runs_image(pod, "busybox:1.36")));
        assert_ne!(after[&broken.name_any()].uid(), broken.uid());
    });
}
