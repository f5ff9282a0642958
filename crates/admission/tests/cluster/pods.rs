//! Pods pass through us.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::eventually::run_test;

use super::installation::Installation;

fn readiness_gates(pod: Pod) -> Vec<String> {
    let gates = pod.spec.unwrap().readiness_gates.unwrap_or_default();
    gates.into_iter().map(|gate| gate.condition_type).collect()
}

#[test]
fn given_a_pod_of_one_of_our_workloads_then_it_gets_the_readiness_gate_and_others_do_not() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("pods").await;
        let manager = installation.start().await;
        assert_eq!(
            readiness_gates(installation.try_pod(true).await.unwrap()),
            ["KruisePodReady"]
        );
        assert_eq!(readiness_gates(installation.try_pod(false).await.unwrap()), [""; 0]);
        let answered =
            manager.metric("controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/mutate-pod\"}");
        assert_eq!(answered, Some(2.0));
        manager.stop().await;
    });
}

#[test]
fn given_a_kind_whose_rules_are_not_built_then_it_can_be_created() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("not-built").await;
        let manager = installation.start().await;
        let clonesets = installation.objects("v1beta1", "CloneSet", "clonesets");
        let web = kruise_testkit::builders::cloneset("web")
            .replicas(0)
            .image("nginx:1.25");
        let web = serde_json::from_value(kruise_testkit::builders::Fixture::json(web)).unwrap();
        clonesets.create(&kube::api::PostParams::default(), &web).await.unwrap();
        manager.stop().await;
    });
}
