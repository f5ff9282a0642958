//! Containers that requests ask to restart, when something goes wrong.

use std::time::Duration;

use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;
use kruise_cri::fake::Ends;
use kruise_testkit::{eventually::run_test, faults::Faults};
use kube::Api;
use serde_json::json;
use tonic::Code;

use super::recreate::{ask, reach, set_status, stops, tell_ready};
use super::world::{Node, becomes};

const DEADLINE: Duration = Duration::from_mins(3);

#[test]
fn given_a_stop_that_fails_then_the_policy_says_whether_the_others_go_on() {
    run_test(DEADLINE, async {
        let node = Node::new("policy").await;
        let both = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
        node.pod("ignore", "apps/v1", &both).await;
        node.pod("fail", "apps/v1", &both).await;
        let daemon = node.daemon(&[]).await;
        let full = || Ends::With(Code::Internal, "no space left on device");
        node.runtime.next("StopContainer", [full()]);
        let api = ask(
            &node,
            "ignore",
            "ignore",
            &["a", "b"],
            &json!({"failurePolicy": "Ignore"}),
        )
        .await;
        let request = reach(&api, "ignore", "Recreating", &["Failed", "Recreating"]).await;
        assert_eq!(
            request.status.unwrap().container_recreate_states[0].message,
            "kill container error: rpc error: code = Internal desc = no space left on device"
        );
        tell_ready(&node, "ignore", "ignore", &["b"]).await;
        reach(&api, "ignore", "Completed", &["Failed", "Succeeded"]).await;

        node.runtime.next("StopContainer", [full()]);
        ask(&node, "fail", "fail", &["a", "b"], &json!({})).await;
        reach(&api, "fail", "Completed", &["Failed", "Pending"]).await;
        assert_eq!(stops(&node).len(), 3);
        daemon.stop().await;
    });
}

#[test]
fn given_a_runtime_that_errs_or_hangs_or_is_another_then_the_request_goes_on_or_says_why_not() {
    run_test(DEADLINE, async {
        let node = Node::new("runtime").await;
        node.pod("p", "apps/v1", &json!([{"name": "a", "image": "i"}])).await;
        let daemon = node.daemon(&[]).await;
        node.runtime
            .next("ListContainers", [Ends::With(Code::Unavailable, "busy"), Ends::Never]);
        let api = ask(&node, "r", "p", &["a"], &json!({})).await;
        reach(&api, "r", "Recreating", &["Recreating"]).await;
        tell_ready(&node, "r", "p", &["a"]).await;
        reach(&api, "r", "Completed", &["Succeeded"]).await;

        let mut foreign = api.get("r").await.unwrap();
        foreign.metadata = kube::api::ObjectMeta {
            name: Some("foreign".to_owned()),
            labels: foreign.metadata.labels,
            ..kube::api::ObjectMeta::default()
        };
        foreign.status = None;
        foreign.spec.containers[0].status_context.as_mut().unwrap().container_id = "cri-o://x".to_owned();
        api.create(&kube::api::PostParams::default(), &foreign).await.unwrap();
        let done = becomes(&api, "foreign", "completed", |request: &ContainerRecreateRequest| {
            request
                .status
                .as_ref()
                .is_some_and(|status| status.completion_time.is_some())
        })
        .await;
        let message = done.status.unwrap().message;
        assert_eq!(
            message,
            "failed to find runtime service: there is no cri-o on this node"
        );
        daemon.stop().await;
    });
}

#[test]
fn given_the_daemon_dies_after_any_of_its_writes_then_the_next_one_goes_on_and_stops_nothing_twice() {
    run_test(DEADLINE, async {
        let node = Node::new("crash").await;
        for writes in 1..=4 {
            let name = format!("p{writes}");
            node.pod(&name, "apps/v1", &json!([{"name": "a", "image": "i"}])).await;
            let faults = Faults::new(1);
            faults.crash_after_writes(writes);
            let before = stops(&node).len();
            let first = node.daemon_with(&[], faults);
            let api = ask(&node, &name, &name, &["a"], &json!({})).await;
            first.faults.until_crashed().await;
            first.kill().await;
            let daemon = node.daemon(&[]).await;
            reach(&api, &name, "Recreating", &["Recreating"]).await;
            tell_ready(&node, &name, &name, &["a"]).await;
            reach(&api, &name, "Completed", &["Succeeded"]).await;
            assert_eq!(stops(&node).len() - before, 1, "a crash after {writes} writes");
            daemon.stop().await;
        }
    });
}

#[test]
fn given_the_manager_completes_a_request_meanwhile_then_the_daemon_leaves_it_so() {
    run_test(DEADLINE, async {
        let node = Node::new("done").await;
        node.pod("p", "apps/v1", &json!([{"name": "a", "image": "i"}])).await;
        let daemon = node.daemon(&[]).await;
        node.runtime.world().kubelet = false;
        let api = ask(&node, "r", "p", &["a"], &json!({})).await;
        reach(&api, "r", "Recreating", &["Recreating"]).await;
        let done = json!({"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z", "message": "pod has gone"});
        set_status(&node, "r", &done).await;
        // The next request gets its turn, and the first one stays as it was.
        ask(&node, "next", "p", &["a"], &json!({})).await;
        reach(&api, "next", "Recreating", &["Recreating"]).await;
        let api: Api<ContainerRecreateRequest> = node.space.api();
        let status = api.get("r").await.unwrap().status.unwrap();
        assert_eq!(
            (status.phase.as_str(), status.message.as_str()),
            ("Completed", "pod has gone")
        );
        daemon.stop().await;
    });
}
