//! StatefulSets on real kubelets: names, volumes that follow their ordinal, and volumes that grow. Containers write into the volume of their claim.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Service},
    discovery::v1::EndpointSlice,
};
use kruise_testkit::builders::statefulset;
use kube::api::DeleteParams;

use crate::*;

/// Two Pods, updated in place. Claims are of the cluster's default class.
fn web() -> Workload {
    let claims = json!([{"metadata": {"name": "told"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}},
    }}]);
    statefulset("web")
        .replicas(2)
        .set("/spec/template/spec/containers", [container("main", None)])
        .set("/spec/volumeClaimTemplates", claims)
        .set("/spec/volumeClaimUpdateStrategy/type", "OnPodRollingUpdate")
        .set(
            "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
            "InPlaceIfPossible",
        )
}

impl Stage {
    /// The Pods of the set, by name, when all are at its latest template and available.
    async fn named(&self) -> BTreeMap<String, Pod> {
        self.done("web").await;
        let pods = self.all("web").await.into_iter();
        pods.map(|pod| (pod.name_any(), pod)).collect()
    }
}

#[test]
fn given_a_headless_service_then_pods_have_the_names_of_their_ordinals() {
    run_test(DEADLINE, async {
        let stage = Stage::of("StatefulSet", "sts-names").await;
        let services: Api<Service> = stage.namespace.api();
        let service = json!({"metadata": {"name": "web"}, "spec": {
            "clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}],
        }});
        let service = serde_json::from_value(service).unwrap();
        services.create(&PostParams::default(), &service).await.unwrap();
        stage.create(web()).await;
        let pods = stage.named().await;
        assert_eq!(pods.keys().collect::<Vec<_>>(), ["web-0", "web-1"]);
        for (name, pod) in &pods {
            assert_eq!(stage.exec(pod, "main", &["hostname"]).trim(), name);
            let full = stage.exec(pod, "main", &["hostname", "-f"]);
            let wanted = format!("{name}.web.{}.svc", stage.namespace.name());
            assert!(full.starts_with(&wanted), "{full} is not {wanted}");
        }
        // What a DNS server makes its records of.
        let slices: Api<EndpointSlice> = stage.namespace.api();
        eventually(PATIENCE, "each name leads to its Pod", || async {
            let selected = ListParams::default().labels("kubernetes.io/service-name=web");
            let found = slices.list(&selected).await?.items.into_iter();
            let found = found.flat_map(|slice| slice.endpoints.into_iter().flatten());
            let found: BTreeMap<Option<String>, Option<String>> = found
                .map(|endpoint| (endpoint.hostname, endpoint.addresses.into_iter().next()))
                .collect();
            let ip = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
            let wanted = pods.iter().map(|(name, pod)| (Some(name.clone()), ip(pod))).collect();
            (found == wanted)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found:?}")))
        })
        .await;
    });
}

#[test]
fn given_a_pod_that_is_made_anew_or_updated_in_place_then_its_volume_is_the_same() {
    run_test(DEADLINE, async {
        let stage = Stage::of("StatefulSet", "sts-volumes").await;
        stage.create(web()).await;
        let first = stage.named().await;
        stage.pods.delete("web-1", &DeleteParams::default()).await.unwrap();
        let old = first["web-1"].uid();
        eventually(PATIENCE, "it is made anew", || async {
            let pod = stage.pods.get_opt("web-1").await?;
            let is_new = pod.is_some_and(|pod| pod.uid() != old);
            is_new.then_some(()).ok_or_else(|| NotYet::new("not yet"))
        })
        .await;
        let anew = stage.named().await;
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        assert_eq!(node(&anew["web-1"]), node(&first["web-1"]), "where its volume is");
        let old_image = "main library/busybox:1.35";
        assert_eq!(stage.told(&anew["web-1"], "main"), [old_image; 2]);
        assert_eq!(stage.told(&anew["web-0"], "main"), [old_image]);

        stage.change("web", to_newer(&[0])).await;
        let updated = stage.named().await;
        for (name, pod) in &updated {
            assert_eq!(identity(pod), identity(&anew[name]));
            assert_eq!(status(pod, "main").restart_count, 1);
            let told = stage.told(pod, "main");
            assert_eq!(told.last().unwrap(), "main library/busybox:1.36", "{told:?}");
        }
    });
}

#[test]
fn given_a_bigger_template_then_volumes_grow_under_running_pods() {
    run_test(DEADLINE, async {
        let stage = Stage::of("StatefulSet", "sts-growth").await;
        stage.create(web()).await;
        let before = stage.named().await;
        stage
            .change("web", |spec| {
                spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("32Mi");
            })
            .await;
        let claims: Api<PersistentVolumeClaim> = stage.namespace.api();
        eventually(PATIENCE, "all have grown", || async {
            let found = claims.list(&ListParams::default()).await?.items;
            let sizes: Vec<Value> = found
                .iter()
                .map(|claim| json!(claim)["status"]["capacity"]["storage"].clone())
                .collect();
            let set = stage.sets.get("web").await?;
            let status = set.data["status"]["volumeClaims"].clone();
            let follow = json!([{"volumeClaimName": "told", "compatibleReplicas": 2, "compatibleReadyReplicas": 2}]);
            (sizes == ["32Mi", "32Mi"] && status == follow)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{sizes:?} {status}")))
        })
        .await;
        let after = stage.named().await;
        for (name, pod) in &after {
            assert_eq!(identity(pod), identity(&before[name]));
            assert_eq!(status(pod, "main").restart_count, 0);
        }
    });
}
