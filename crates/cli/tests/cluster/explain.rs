use super::stage::{DebugEndpoint, Stage};
use kruise_core::plan::why;
use kruise_core::plan::{PodNames, Why};
use kruise_testkit::eventually::run_test;
use serde_json::{Value, json};
use std::{process::Output, time::Duration};

fn why() -> [Why; 2] {
    [
        Why::Rollout(why::Rollout::Partition { keeps: 3 }),
        Why::Rollout(why::Rollout::Recreating {
            pods: PodNames::from_iter(["web-a"]),
            because: "spec.containers[0].env".to_owned(),
        }),
    ]
}

fn plans() -> Value {
    json!({"cloneset-controller": {
        "why": why(),
        "actions": [{"phase": "scale", "pace": "bounded", "onFailure": "stop", "chains": [
            {"writes": [{"action": {"verb": "delete", "kind": "Pod", "namespace": "x", "name": "web-a", "when": {}}}]},
        ]}],
    }})
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(super) fn expect(output: &Output, code: i32, parts: &[&str]) {
    let (status, stdout, stderr) = texts(output);
    assert_eq!(status, Some(code), "{stdout}{stderr}");
    for part in parts {
        assert!(
            stdout.contains(part) || stderr.contains(part),
            "{part:?} is not in {stdout}{stderr}"
        );
    }
}

#[test]
fn given_a_manager_then_its_plan_is_told() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("explain").await;
        let path = format!("/debug/plan/cloneset/{}/web", stage.namespace.name());
        let endpoint = DebugEndpoint::start(path, "200 OK", plans().to_string()).await;
        let [partition, recreating] = why().map(|why| format!("  - {why}\n"));
        assert!(recreating.contains("spec.containers[0].env"), "the field is named");
        let lines = [
            "5 wanted, 5 there, 2 updated",
            &partition,
            &recreating,
            "  - delete Pod web-a",
        ];

        let url = format!("http://127.0.0.1:{}", endpoint.port);
        let direct = stage.explain(&["cloneset", "web", "--manager", &url]).await;
        expect(&direct, 0, &lines);

        let json = stage.explain(&["clone/web", "--manager", &url, "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["plans"], plans());
        assert_eq!(
            (&json["problem"], &json["status"]["updatedReplicas"]),
            (&Value::Null, &json!(2))
        );
    });
}

#[test]
fn given_no_manager_then_it_is_said_and_the_status_is_told() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("alone").await;
        let status = "3 Pods are not at the update revision";
        let nobody = stage.explain(&["cloneset", "web"]).await;
        expect(
            &nobody,
            3,
            &["The manager cannot be asked", "there is no Lease", status],
        );
        let json = stage.explain(&["cloneset", "web", "-o", "json"]).await;
        expect(&json, 3, &["\"plans\": null", "there is no Lease"]);

        let refused = stage
            .explain(&["cloneset", "web", "--manager", "http://127.0.0.1:1"])
            .await;
        expect(
            &refused,
            3,
            &["the manager at http://127.0.0.1:1 cannot be asked", status],
        );
        let odd = stage.explain(&["cloneset", "web", "--manager", "localhost"]).await;
        expect(&odd, 3, &["not an address that begins with http://"]);
        let other = DebugEndpoint::start("/".into(), "200 OK", String::new()).await;
        let url = format!("http://127.0.0.1:{}", other.port);
        let unknown = stage.explain(&["cloneset", "web", "--manager", &url]).await;
        expect(&unknown, 3, &["404 Not Found: another path"]);

        // No kubelet runs here, so no port can be forwarded.
        stage.lead("manager-1", "manager-1_0f3c").await;
        let found = stage.explain(&["cloneset", "web"]).await;
        let pod = format!("Pod {}/manager-1, port 8090 cannot be asked", stage.namespace.name());
        expect(&found, 3, &[&pod, "cannot forward a port to it", status]);

        stage.lead("manager-3", "manager-2_0f3c").await;
        let gone = stage.explain(&["cloneset", "web"]).await;
        expect(
            &gone,
            3,
            &["is held by manager-2_0f3c, last renewed", "but there is no such Pod"],
        );
    });
}

#[test]
fn given_a_mistake_then_the_error_says_what_to_do() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("mistakes").await;
        let missing = stage.explain(&["cloneset", "api"]).await;
        expect(&missing, 1, &["error: clonesets.apps.kruise.io \"api\" not found"]);
        expect(&stage.explain(&["cloneset"]).await, 1, &["say the name as well"]);
        expect(
            &stage.explain(&["job", "web"]).await,
            1,
            &["job cannot be explained yet"],
        );
        expect(&stage.kruise(&["explain"]).await, 2, &["Usage: kubectl kruise explain"]);
        let context = stage.explain(&["cloneset", "web", "--context", "nowhere"]).await;
        expect(&context, 1, &["nowhere"]);
        stage.without_kind().await;
        expect(
            &stage.explain(&["cloneset", "web"]).await,
            1,
            &["OpenKruise is not installed"],
        );
    });
}
