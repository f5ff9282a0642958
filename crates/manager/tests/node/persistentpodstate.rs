//! PersistentPodStates on real nodes: Pods that are evicted come back to where they were.

use std::collections::BTreeMap;

use kruise_testkit::builders::statefulset;
use kube::api::EvictParams;

use crate::*;

#[test]
fn given_evictions_then_each_pod_comes_back_to_its_node() {
    run_test(DEADLINE, async {
        let stage = Stage::of("StatefulSet", "pps-eviction").await;
        let set = statefulset("web")
            .replicas(3)
            .set("/spec/podManagementPolicy", "Parallel")
            .set("/spec/template/spec/containers", [container("main", None)])
            .set("/spec/template/spec/volumes", json!([{"name": "told", "emptyDir": {}}]))
            .set(
                "/metadata/annotations",
                json!({
                    "kruise.io/auto-generate-persistent-pod-state": "true",
                    "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
                    "kruise.io/preferred-persistent-topology": "kubernetes.io/os",
                }),
            );
        stage.create(set).await;
        stage.done("web").await;
        let before = nodes(&stage).await;
        remembers(&stage, &before).await;
        // All at once: only what is remembered tells which Pod was where.
        for name in before.keys() {
            stage.pods.evict(name, &EvictParams::default()).await.unwrap();
        }
        let after = eventually(PATIENCE, "each Pod is there again", || async {
            let all = stage.all("web").await;
            let injected = |pod: &Pod| {
                pod.annotations()
                    .get("kruise.io/injected-persistent-pod-state")
                    .cloned()
            };
            let is_back =
                |pod: &Pod| injected(pod).as_deref() == Some("web") && condition(pod, "Ready") == Some("True");
            if all.len() == before.len() && all.iter().all(is_back) {
                Ok(all)
            } else {
                Err(NotYet::new(format!(
                    "{:?}",
                    all.iter().map(injected).collect::<Vec<_>>()
                )))
            }
        })
        .await;
        for pod in &after {
            let selector = &json!(pod.spec)["nodeSelector"];
            assert_eq!(selector["kubernetes.io/hostname"], *before[&pod.name_any()]);
        }
        assert_eq!(nodes(&stage).await, before);
        remembers(&stage, &before).await;
    });
}

/// The node of each Pod.
async fn nodes(stage: &Stage) -> BTreeMap<String, String> {
    let all = stage.all("web").await.into_iter();
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
    all.map(|pod| (pod.name_any(), node(&pod))).collect()
}

/// Waits until it is remembered which Pod is where.
async fn remembers(stage: &Stage, nodes: &BTreeMap<String, String>) {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "PersistentPodState");
    let client = cluster::nodes_client().await;
    let states: Api<DynamicObject> =
        Api::namespaced_with(client, stage.namespace.name(), &ApiResource::from_gvk(&kind));
    eventually(PATIENCE, "it is remembered", || async {
        let known = states.get("web").await?.data["status"]["podStates"].clone();
        let is_known = |(pod, node): (&String, &String)| known[pod]["nodeName"] == *node;
        let is_all = nodes.iter().all(is_known);
        is_all.then_some(()).ok_or_else(|| NotYet::new(format!("{known:#}")))
    })
    .await;
}
