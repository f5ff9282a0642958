//! Images that the NodeImage asks for.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kruise_cri::{
    Credentials,
    fake::{Ends, FakeRuntime, Pullable},
};
use kruise_testkit::{
    cluster::TestControlPlane,
    eventually::{NotYet, consistently, eventually, run_test},
    faults::{Fault, Faults, When},
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use tonic::Code;

use super::world::{Node, PATIENCE, SECRETS, tag_of};

const DEADLINE: Duration = Duration::from_mins(2);

/// A tag as the manager writes it.
fn tag(tag: &str, version: i64, retries: i32, timeout: i32) -> Value {
    json!({
        "tag": tag, "version": version, "createdAt": "2026-01-01T00:00:00Z", "imagePullPolicy": "Always",
        "pullPolicy": {"timeoutSeconds": timeout, "backoffLimit": retries, "ttlSecondsAfterFinished": 300},
    })
}

fn can_be_pulled(runtime: &FakeRuntime, image: &str, pullable: Pullable) {
    runtime.world().registry.insert(image.to_owned(), pullable);
}

fn stuck() -> Pullable {
    Pullable {
        stuck: true,
        ..Pullable::default()
    }
}

async fn pulls(node: &Node, number: usize) {
    eventually(PATIENCE, &format!("{number} pulls"), || async {
        let calls = node.runtime.calls("PullImage");
        (calls.len() >= number)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{calls:?}")))
    })
    .await;
}

#[test]
fn given_crds_that_have_only_the_older_version_then_images_are_pulled_and_reported_in_it() {
    run_test(DEADLINE, async {
        // Its own, as CRDs belong to the whole cluster.
        let control_plane = TestControlPlane::of_its_own().await.unwrap();
        let node = Node::of_older_crds(&control_plane.kubeconfig(), "older").await;
        can_be_pulled(&node.runtime, "nginx:1.25", Pullable::default());
        let daemon = node.daemon(&[]).await;
        for version in [0, 1] {
            node.ask_for(&json!({"nginx": {"tags": [tag("1.25", version, 0, 60)]}}))
                .await;
            node.tag_becomes("nginx", "1.25", "Succeeded", version).await;
        }
        let event = node.event(&node.name, "PullImageSucceed").await;
        assert_eq!(
            event.involved_object.api_version.as_deref(),
            Some("apps.kruise.io/v1alpha1")
        );
        daemon.stop().await;
        drop(node);
        drop(control_plane);
    });
}

#[test]
fn given_a_tag_then_it_is_pulled_reported_and_pulled_again_for_each_version_and_for_nothing_else() {
    run_test(DEADLINE, async {
        let node = Node::new("pull").await;
        can_be_pulled(&node.runtime, "nginx:1.25", Pullable::default());
        let daemon = node.daemon(&[]).await;
        let images = |version| {
            json!({"nginx": {
                "sandboxConfig": {"annotations": {"a": "b"}, "labels": {"l": "1"}},
                "tags": [tag("1.25", version, 0, 60)],
            }})
        };
        node.ask_for(&images(0)).await;
        let done = node.tag_becomes("nginx", "1.25", "Succeeded", 0).await;
        assert_eq!(done["progress"], 100);
        assert!(done["imageID"].as_str().unwrap().starts_with("nginx@sha256:"), "{done}");
        assert!(
            done["startTime"].is_string() && done["completionTime"].is_string(),
            "{done}"
        );
        let status = node.image_status().await.unwrap();
        assert_eq!(
            (&status["desired"], &status["succeeded"], &status["pulling"]),
            (&json!(1), &json!(1), &json!(0))
        );
        let call = node.runtime.calls("PullImage")[0].clone();
        assert_eq!(call.about, "nginx:1.25");
        assert_eq!(call.annotations["a"], "b");
        assert_eq!(call.annotations["apps.kruise.io/pulling-image-by"], "kruise-daemon");
        let event = node.event(&node.name, "PullImageSucceed").await;
        let source = event.source.unwrap();
        assert_eq!(source.component.as_deref(), Some("kruise-daemon-imagepuller"));
        assert_eq!(source.host.as_deref(), Some(node.name.as_str()));

        node.ask_for(&images(1)).await;
        node.tag_becomes("nginx", "1.25", "Succeeded", 1).await;
        assert_eq!(node.runtime.calls("PullImage").len(), 2);

        // A new daemon finds all done.
        daemon.stop().await;
        let daemon = node.daemon(&[]).await;
        can_be_pulled(&node.runtime, "other:1", Pullable::default());
        let mut both = images(1);
        both["other"] = json!({"tags": [tag("1", 0, 0, 60)]});
        node.ask_for(&both).await;
        node.tag_becomes("other", "1", "Succeeded", 0).await;
        assert_eq!(node.runtime.calls("PullImage").len(), 3, "only the new one");
        daemon.stop().await;
    });
}

#[test]
fn given_a_tag_is_removed_or_the_daemon_ends_while_it_is_pulled_then_the_pull_ends_too_and_is_taken_up_again() {
    run_test(DEADLINE, async {
        let node = Node::new("removed").await;
        can_be_pulled(&node.runtime, "slow:1", stuck());
        let daemon = node.daemon(&[]).await;
        node.ask_for(&json!({"slow": {"tags": [tag("1", 0, 0, 600)]}})).await;
        node.tag_becomes("slow", "1", "Pulling", 0).await;
        node.ask_for(&json!({})).await;
        eventually(PATIENCE, "the pull is given up", || async {
            let status = node.image_status().await?;
            let given_up = node.runtime.calls("PullImage")[0].given_up;
            let gone = tag_of(&status, "slow", "1").is_null() && status["desired"] == 0;
            (given_up && gone).then_some(()).ok_or_else(|| NotYet::from(status))
        })
        .await;

        node.ask_for(&json!({"slow": {"tags": [tag("1", 1, 0, 600)]}})).await;
        node.tag_becomes("slow", "1", "Pulling", 1).await;
        daemon.kill().await;
        can_be_pulled(&node.runtime, "slow:1", Pullable::default());
        let daemon = node.daemon(&[]).await;
        node.tag_becomes("slow", "1", "Succeeded", 1).await;
        daemon.stop().await;
    });
}

#[test]
fn given_an_image_that_is_there_then_only_if_not_present_spares_the_pull() {
    run_test(DEADLINE, async {
        let node = Node::new("present").await;
        let digest = format!("sha256:{}", "0".repeat(64));
        for image in [
            "docker.io/library/here:1".to_owned(),
            format!("docker.io/library/here@{digest}"),
        ] {
            node.runtime.world().images.insert(image, "sha256:1".to_owned());
        }
        can_be_pulled(&node.runtime, "here:1", Pullable::default());
        let daemon = node.daemon(&[]).await;
        let mut spared = [tag("1", 0, 0, 60), tag(&digest, 0, 0, 60)];
        for tag in &mut spared {
            tag["imagePullPolicy"] = json!("IfNotPresent");
        }
        node.ask_for(&json!({"here": {"tags": spared}})).await;
        let done = node.tag_becomes("here", "1", "Succeeded", 0).await;
        assert_eq!(done["imageID"], "here@sha256:1");
        node.tag_becomes("here", &digest, "Succeeded", 0).await;
        assert!(node.runtime.calls("PullImage").is_empty());
        let mut pulled = tag("1", 1, 0, 60);
        pulled["imagePullPolicy"] = json!("");
        node.ask_for(&json!({"here": {"tags": [pulled]}})).await;
        node.tag_becomes("here", "1", "Succeeded", 1).await;
        assert_eq!(node.runtime.calls("PullImage").len(), 1, "no word pulls");
        daemon.stop().await;
    });
}

async fn secret(node: &Node, namespace: &str, name: &str, content: &str) {
    let object = json!({
        "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": content},
    });
    let api: Api<Secret> = Api::namespaced(node.client.clone(), namespace);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[test]
fn given_a_private_registry_then_the_right_secret_opens_it_and_nothing_else_does() {
    run_test(DEADLINE, async {
        let node = Node::new("private").await;
        let who = Credentials {
            username: "u".to_owned(),
            password: "p".to_owned(),
        };
        let private = Pullable {
            only: Some(who.clone()),
            ..Pullable::default()
        };
        for image in ["right", "wrong", "missing", "elsewhere"] {
            can_be_pulled(&node.runtime, &format!("reg.io/{image}:1"), private.clone());
        }
        let login = |password: &str| json!({"auths": {"reg.io": {"username": "u", "password": password}}}).to_string();
        let (right, wrong) = (format!("{}-right", node.name), format!("{}-wrong", node.name));
        secret(&node, SECRETS, &right, &login("p")).await;
        secret(&node, SECRETS, &wrong, &login("q")).await;
        secret(&node, node.space.name(), "elsewhere", &login("p")).await;
        let daemon = node.daemon(&[]).await;
        let image = |namespace: &str, name: &str| json!({"pullSecrets": [{"namespace": namespace, "name": name}], "tags": [tag("1", 0, 0, 60)]});
        node.ask_for(&json!({
            "reg.io/right": image(SECRETS, &right),
            "reg.io/wrong": image(SECRETS, &wrong),
            "reg.io/missing": image(SECRETS, "no-such-secret"),
            "reg.io/elsewhere": image(node.space.name(), "elsewhere"),
        }))
        .await;
        node.tag_becomes("reg.io/right", "1", "Succeeded", 0).await;
        for (image, credentials) in [
            ("wrong", Some("q")),
            // Without a Secret that can be read it is tried without: the image might be public.
            ("missing", None),
            ("elsewhere", None),
        ] {
            let failed = node.tag_becomes(&format!("reg.io/{image}"), "1", "Failed", 0).await;
            assert!(
                failed["message"].as_str().unwrap().contains("401 Unauthorized"),
                "{failed}"
            );
            let calls = node.runtime.calls("PullImage");
            let calls: Vec<_> = calls
                .iter()
                .filter(|call| call.about == format!("reg.io/{image}:1"))
                .collect();
            assert_eq!(calls.len(), 1, "nobody asks a second time: {calls:?}");
            let password = calls[0]
                .credentials
                .as_ref()
                .map(|credentials| credentials.password.as_str());
            assert_eq!(password, credentials, "{image}");
        }
        daemon.stop().await;
    });
}

#[test]
fn given_what_cannot_be_pulled_then_it_fails_with_a_clear_message_and_the_others_do_not_notice() {
    run_test(DEADLINE, async {
        let node = Node::new("hopeless").await;
        can_be_pulled(&node.runtime, "good:1", Pullable::default());
        can_be_pulled(&node.runtime, "slow:1", stuck());
        let broken = format!("{}-broken", node.name);
        secret(&node, SECRETS, &broken, "{\"auths\":{}}").await;
        // The server checks the content of such a Secret when it is made, but not that it makes sense.
        let daemon = node.daemon(&[]).await;
        let mut owned = tag("1", 0, 1, 60);
        owned["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "namespace": node.space.name(), "name": "job", "uid": "00000000-0000-0000-0000-000000000002"}]);
        let mut expired = tag("2", 0, 9, 60);
        expired["pullPolicy"]["activeDeadlineSeconds"] = json!(0);
        node.ask_for(&json!({
            "good": {"tags": [tag("1", 0, 0, 60)]},
            "unknown": {"tags": [owned]},
            "slow": {"tags": [tag("1", 0, 0, 1), expired]},
            "No Image//at all": {"tags": [tag("1", 0, 3, 60)]},
            "bad-tag": {"tags": [tag(":::", 0, 3, 60)]},
            "with-broken-secret": {"pullSecrets": [{"namespace": SECRETS, "name": broken}, {"namespace": "", "name": ""}], "tags": [tag("1", 0, 0, 60)]},
        }))
        .await;
        let failed = node.tag_becomes("unknown", "1", "Failed", 0).await;
        assert_eq!(
            failed["message"],
            "Failed to pull image reference \"unknown:1\": rpc error: code = NotFound desc = failed to pull and unpack image \"unknown:1\": not found"
        );
        let calls = node.runtime.calls("PullImage");
        assert_eq!(
            calls.iter().filter(|call| call.about == "unknown:1").count(),
            2,
            "one retry"
        );
        for object in ["job", &node.name] {
            let event = node.event(object, "PullImageFailed").await;
            assert_eq!(event.type_.as_deref(), Some("Warning"));
        }
        for (name, tag, part) in [
            ("slow", "1", "pulling image slow:1 is canceled"),
            ("slow", "2", "pulling exceeds the activeDeadlineSeconds"),
            ("No Image//at all", "1", "invalid reference format"),
            ("bad-tag", ":::", "invalid reference format"),
            ("with-broken-secret", "1", "not found"),
        ] {
            let failed = node.tag_becomes(name, tag, "Failed", 0).await;
            assert!(failed["message"].as_str().unwrap().contains(part), "{failed}");
        }
        node.tag_becomes("good", "1", "Succeeded", 0).await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_full_disk_then_the_status_says_so_and_the_next_attempt_works_when_there_is_room() {
    run_test(DEADLINE, async {
        let node = Node::new("full").await;
        can_be_pulled(&node.runtime, "big:1", Pullable::default());
        let full = "failed to extract layer: write /var/lib/containerd/x: no space left on device";
        let ends = [Ends::With(Code::Unknown, full), Ends::With(Code::Unknown, full)];
        node.runtime.next("PullImage", ends);
        let daemon = node.daemon(&[]).await;
        node.ask_for(&json!({"big": {"tags": [tag("1", 0, 1, 60)]}})).await;
        let failed = node.tag_becomes("big", "1", "Failed", 0).await;
        assert_eq!(
            failed["message"],
            format!("Failed to pull image reference \"big:1\": rpc error: code = Unknown desc = {full}")
        );
        node.ask_for(&json!({"big": {"tags": [tag("1", 1, 0, 60)]}})).await;
        node.tag_becomes("big", "1", "Succeeded", 1).await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_limit_then_others_wait_and_reports_are_few() {
    run_test(DEADLINE, async {
        let node = Node::new("limit").await;
        for number in 0..3 {
            can_be_pulled(&node.runtime, &format!("slow:{number}"), stuck());
        }
        let daemon = node.daemon(&["--max-workers-for-pull-image=1"]).await;
        let slow: Vec<_> = (0..3).map(|number| tag(&number.to_string(), 0, 0, 600)).collect();
        node.ask_for(&json!({"slow": {"tags": slow}})).await;
        let is_so = || async {
            let status = node.image_status().await?;
            let counts = (&status["pulling"], &status["waiting"], &status["desired"]);
            (counts == (&json!(1), &json!(2), &json!(3)))
                .then_some(())
                .ok_or_else(|| NotYet::from(status.clone()))
        };
        eventually(PATIENCE, "one is pulled, two wait", is_so).await;
        consistently(Duration::from_millis(300), "they wait", is_so).await;
        assert_eq!(node.runtime.world().pulling.1, 1, "never more than one");
        daemon.stop().await;

        // Fifty images, one after the other: every end is a change that could be written.
        let many: Vec<_> = (0..50).map(|number| tag(&number.to_string(), 0, 0, 60)).collect();
        for number in 0..50 {
            can_be_pulled(&node.runtime, &format!("quick:{number}"), Pullable::default());
        }
        let daemon = node.daemon(&["--max-workers-for-pull-image=1"]).await;
        let began = tokio::time::Instant::now();
        node.ask_for(&json!({"quick": {"tags": many}})).await;
        eventually(PATIENCE, "all are there", || async {
            let status = node.image_status().await?;
            (status["succeeded"] == 50)
                .then_some(())
                .ok_or_else(|| NotYet::from(status))
        })
        .await;
        let written = daemon.faults.count("patch", "nodeimages/status");
        let allowed = 5 + began.elapsed().as_secs() / 2 + 1;
        assert!((1..=allowed).contains(&written), "{written} reports, {allowed} allowed");
        daemon.stop().await;
    });
}

#[test]
fn given_the_runtime_or_the_api_server_goes_away_then_the_pull_goes_on_when_it_is_back() {
    run_test(DEADLINE, async {
        let mut node = Node::new("away").await;
        can_be_pulled(&node.runtime, "slow:1", stuck());
        can_be_pulled(&node.runtime, "quick:1", Pullable::default());
        let daemon = node.daemon(&[]).await;
        node.ask_for(&json!({"slow": {"tags": [tag("1", 0, 5, 600)]}})).await;
        node.tag_becomes("slow", "1", "Pulling", 0).await;
        pulls(&node, 1).await;
        node.runtime.kill();
        can_be_pulled(&node.runtime, "slow:1", Pullable::default());
        node.runtime.start_again();
        node.tag_becomes("slow", "1", "Succeeded", 0).await;

        // What is pulled while nothing can be written is reported later.
        daemon.faults.inject(When::writes(), Fault::Refuse(503));
        node.ask_for(&json!({"quick": {"tags": [tag("1", 0, 0, 600)]}})).await;
        pulls(&node, 3).await;
        daemon.faults.heal();
        node.tag_becomes("quick", "1", "Succeeded", 0).await;
        daemon.stop().await;
    });
}

#[test]
fn given_no_runtime_then_the_daemon_ends_with_a_clear_message() {
    run_test(DEADLINE, async {
        let mut node = Node::new("nothing").await;
        node.runtime.kill();
        let error = node.daemon_with(&[], Faults::new(1)).ends().await.unwrap_err();
        assert!(
            error.to_string().contains("not found container runtime sock"),
            "{error:#}"
        );
    });
}

#[test]
fn given_nothing_to_do_then_the_daemon_asks_for_nothing() {
    run_test(DEADLINE, async {
        let node = Node::new("idle").await;
        let daemon = node.daemon(&[]).await;
        node.ask_for(&json!({})).await;
        let calls = |daemon: &super::world::Daemon| {
            let mut calls = daemon.faults.calls();
            calls.retain(|(verb, _), _| verb != "watch");
            calls
        };
        let before = calls(&daemon);
        consistently(Duration::from_secs(2), "no call is made", || async {
            let now = calls(&daemon);
            (now == before)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{now:?}")))
        })
        .await;
        assert_eq!(daemon.faults.writes(), 0);
        daemon.stop().await;
    });
}
