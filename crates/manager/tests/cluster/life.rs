//! From the start to the end of a manager on which nothing bad befalls.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_testkit::{
    builders::{Fixture as _, cloneset, config_map, pod},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::world::{PATIENCE, World};

#[test]
fn given_what_the_chart_installs_then_a_manager_with_the_charts_rights_does_its_work() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("life").await;
        let replica = world.ready(&Faults::new(1)).await;
        replica.leads().await;
        world.all_trust().await;

        // A workload of ours, in the older version: converted by us.
        let older = world.objects("v1alpha1", "CloneSet");
        let web = cloneset("web")
            .set("/apiVersion", "apps.kruise.io/v1alpha1")
            .set("/spec/updateStrategy/paused", true)
            .replicas(1)
            .image("nginx:1.25");
        let web = eventually(PATIENCE, "the workload is there", || async {
            let web: kube::api::DynamicObject = serde_json::from_value(web.clone().json()).unwrap();
            Ok(older.create(&PostParams::default(), &web).await?)
        })
        .await;
        let newer = world.objects("v1beta1", "CloneSet").get("web").await.unwrap();
        assert_eq!(newer.types.unwrap().api_version, "apps.kruise.io/v1beta1");

        // A Pod of it gets the readiness gate on its way in, and then the condition. The set's selector does not choose it: it would be one
        // too many for the set, which might take it away.
        let pods: Api<Pod> = world.work.api();
        let one = pod("one")
            .image("nginx:1.25")
            .label("app", "other")
            .owned_by(&web)
            .build();
        let one = pods.create(&PostParams::default(), &one).await.unwrap();
        let gates = one.spec.unwrap().readiness_gates.unwrap_or_default();
        assert_eq!(
            gates
                .iter()
                .map(|gate| gate.condition_type.as_str())
                .collect::<Vec<_>>(),
            ["KruisePodReady"]
        );
        eventually(PATIENCE, "the Pod has its condition", || async {
            let status = pods.get("one").await?.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition.type_ == "KruisePodReady" && condition.status == "True")
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{conditions:?}")))
        })
        .await;

        // It tells what it would do: nothing more.
        let path = format!("pod/{}/one", world.work.name());
        eventually(PATIENCE, "there is nothing more to do", || async {
            let (code, body) = replica.plan(&path).await.ok_or_else(|| NotYet::new("no answer"))?;
            let plan: Value = serde_json::from_str(&body).unwrap_or_default();
            (code == 200 && plan["pod-readiness-controller"] == json!({}))
                .then_some(())
                .ok_or_else(|| NotYet::new(body))
        })
        .await;
        assert_eq!(replica.plan("pod/nowhere/none").await.unwrap().0, 404);

        // The lease is given back at the end.
        assert!(world.holder().await.is_some());
        world.stop(replica).await;
        assert_eq!(world.holder().await, None);
    });
}

#[test]
fn given_a_configuration_that_cannot_be_read_then_that_is_told_until_it_is_mended() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("configuration").await;
        let replica = world.ready(&Faults::new(1)).await;
        let errors = async |count: f64| {
            eventually(PATIENCE, "the number of errors is told", || async {
                let told = replica.metric("kruise_configuration_errors").await;
                (told == Some(count))
                    .then_some(())
                    .ok_or_else(|| NotYet::new(format!("{told:?}")))
            })
            .await;
        };
        errors(0.0).await;
        let maps: Api<ConfigMap> = world.system.api();
        let key = "WorkloadSpread_Watch_Custom_Workload_WhiteList";
        let map = config_map("kruise-configuration").data(key, "{").build();
        maps.create(&PostParams::default(), &map).await.unwrap();
        errors(1.0).await;
        let patch =
            json!({"data": {key: "{\"workloads\":[{\"group\":\"x.io\",\"version\":\"v1\",\"kind\":\"Foo\"}]}"}});
        maps.patch("kruise-configuration", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        errors(0.0).await;
        world.stop(replica).await;
    });
}
