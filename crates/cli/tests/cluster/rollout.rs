//! `rollout` and `promote`: what they tell, and what they write. The test is the controller.

use super::{commands::expect, stage::Stage};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_testkit::eventually::run_test;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{process::Output, time::Duration};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const NO_PARAMS: fn() -> PatchParams = PatchParams::default;

/// The CloneSet of the stage in one of its versions.
fn sets(stage: &Stage, version: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, "CloneSet"));
    Api::namespaced_with(stage.client.clone(), stage.namespace.name(), &kind)
}

async fn spec(stage: &Stage) -> Value {
    sets(stage, "v1beta1").get("web").await.unwrap().data["spec"].clone()
}

async fn change(stage: &Stage, patch: Value) {
    let sets = sets(stage, "v1beta1");
    sets.patch("web", &NO_PARAMS(), &Patch::Merge(patch)).await.unwrap();
}

/// What a controller says once it has seen the newest spec.
async fn answer(stage: &Stage, counts: &Value) {
    let sets = sets(stage, "v1beta1");
    let generation = sets.get("web").await.unwrap().metadata.generation;
    let mut status = json!({"observedGeneration": generation});
    kruise_api::merge_patch::merge(&mut status, counts);
    let patch = Patch::Merge(json!({ "status": status }));
    sets.patch_status("web", &NO_PARAMS(), &patch).await.unwrap();
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn given_a_rollout_then_status_tells_each_step_and_ends_when_it_is_complete() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("status").await;
        let waiting = "Waiting for partitioned roll out to finish: 2 out of 5 new pods have been updated...";
        let now = stage
            .kruise(&["rollout", "status", "cloneset/web", "--watch=false"])
            .await;
        assert_eq!((now.status.code(), printed(&now).trim_end()), (Some(0), waiting));
        let late = stage
            .kruise(&["rollout", "status", "clone", "web", "--timeout", "1s"])
            .await;
        expect(&late, 1, &[waiting, "error: timed out waiting for the condition"]);

        let mut child = stage.start(&["rollout", "status", "clone/web"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), waiting);
        answer(&stage, &json!({"updatedReplicas": 5, "updatedReadyReplicas": 4})).await;
        assert_eq!(
            lines.next_line().await.unwrap().unwrap(),
            "Waiting for 1 pods to be ready..."
        );
        answer(&stage, &json!({"updatedReadyReplicas": 5, "updateRevision": "web-7d9"})).await;
        assert_eq!(
            lines.next_line().await.unwrap().unwrap(),
            "CloneSet rolling update complete 5 pods at revision web-7d9..."
        );
        assert_eq!(lines.next_line().await.unwrap(), None, "no bar without a terminal");
        assert_eq!(child.wait().await.unwrap().code(), Some(0));

        let both = stage.kruise(&["rollout", "status", "clone/web", "clone/web"]).await;
        expect(
            &both,
            1,
            &["only supported on individual resources - 2 resources were found"],
        );
        let other = stage.kruise(&["rollout", "status", "clone/gone"]).await;
        expect(&other, 1, &["error: clonesets.apps.kruise.io \"gone\" not found"]);
        let nothing = stage.kruise(&["rollout", "status"]).await;
        expect(&nothing, 1, &["error: required resource not specified"]);
    });
}

/// A revision of the set with this template.
async fn revision(stage: &Stage, number: i64, template: &Value) {
    let owner = sets(stage, "v1beta1").get("web").await.unwrap();
    let mut template = template.clone();
    template["$patch"] = json!("replace");
    let revision = json!({
        "metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}, "annotations": {"kubernetes.io/change-cause": format!("cause {number}")},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": owner.metadata.uid, "controller": true}]},
        "revision": number, "data": {"spec": {"template": template}},
    });
    let revisions: Api<ControllerRevision> = stage.namespace.api();
    let revision = serde_json::from_value(revision).unwrap();
    revisions.create(&PostParams::default(), &revision).await.unwrap();
}

#[test]
fn given_revisions_then_history_tells_them_and_undo_brings_the_whole_template_back() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("undo").await;
        let live = spec(&stage).await["template"].clone();
        let mut old = live.clone();
        old["spec"]["containers"][0]["image"] = json!("nginx:old");
        revision(&stage, 1, &old).await;
        let more = json!({"spec": {"template": {"metadata": {"annotations": {"team": "new"}}, "spec": {"nodeSelector": {"disk": "ssd"}}}}});
        change(&stage, more).await;
        revision(&stage, 2, &spec(&stage).await["template"]).await;

        let history = stage.kruise(&["rollout", "history", "cloneset", "web"]).await;
        let table = "cloneset.apps.kruise.io/web\nREVISION  CHANGE-CAUSE\n1         cause 1\n2         cause 2\n\n";
        assert_eq!(printed(&history), table);
        let one = stage
            .kruise(&["rollout", "history", "clone/web", "--revision", "2"])
            .await;
        let changed = "  containers[main].image: nginx:old -> nginx";
        expect(
            &one,
            0,
            &["cloneset.apps.kruise.io/web with revision #2", "Image:", changed],
        );
        let diff = stage.kruise(&["rollout", "history", "clone/web", "--diff"]).await;
        expect(
            &diff,
            0,
            &["Changes since revision 1:", changed, "annotations[team]: added"],
        );
        let gone = stage
            .kruise(&["rollout", "history", "clone/web", "--revision", "9"])
            .await;
        expect(&gone, 1, &["error: unable to find the specified revision"]);

        let before = spec(&stage).await;
        let told = stage
            .kruise(&["rollout", "undo", "clone/web", "--dry-run=client"])
            .await;
        expect(
            &told,
            0,
            &[
                "cloneset.apps.kruise.io/web will roll back to Pod Template:",
                "nginx:old",
            ],
        );
        let tried = stage
            .kruise(&["rollout", "undo", "clone/web", "--dry-run=server"])
            .await;
        expect(&tried, 0, &["cloneset.apps.kruise.io/web rolled back (server dry run)"]);
        assert_eq!(spec(&stage).await, before, "nothing was written");
        let unknown = stage
            .kruise(&["rollout", "undo", "clone/web", "--to-revision", "9"])
            .await;
        expect(&unknown, 1, &["error: unable to find specified revision 9 in history"]);

        let undone = stage.kruise(&["rollout", "undo", "clone/web"]).await;
        assert_eq!(
            (undone.status.code(), printed(&undone).as_str()),
            (Some(0), "cloneset.apps.kruise.io/web rolled back\n")
        );
        let after = spec(&stage).await;
        assert_eq!(after["template"]["spec"]["containers"][0]["image"], "nginx:old");
        assert_eq!(after["template"]["spec"]["nodeSelector"], Value::Null, "it is gone");
        assert_eq!(
            after["template"]["metadata"]["annotations"],
            Value::Null,
            "they are gone"
        );
        assert_eq!(after["template"]["$patch"], Value::Null);
        let again = stage
            .kruise(&[
                "rollout",
                "undo",
                "clonesets.v1alpha1.apps.kruise.io/web",
                "--to-revision",
                "1",
            ])
            .await;
        expect(
            &again,
            0,
            &["skipped rollback (current template already matches revision 1)"],
        );
    });
}

#[test]
fn given_either_version_then_a_rollout_is_paused_resumed_restarted_and_promoted() {
    run_test(Duration::from_mins(3), async {
        let stage = Stage::with_cloneset("steer").await;
        let rolling =
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": "80%"}}}});
        change(&stage, rolling).await;
        let strategy = || async { spec(&stage).await["updateStrategy"]["rollingUpdate"].clone() };

        let paused = stage.kruise(&["rollout", "pause", "clone/web"]).await;
        assert_eq!(printed(&paused), "cloneset.apps.kruise.io/web paused\n");
        assert_eq!(strategy().await["paused"], true);
        let again = stage.kruise(&["rollout", "pause", "clone/web", "clone/gone"]).await;
        let lines = [
            "error: clonesets.apps.kruise.io \"web\" is already paused",
            "error: clonesets.apps.kruise.io \"gone\" not found",
        ];
        expect(&again, 1, &lines);
        let held = stage.kruise(&["promote", "clone/web"]).await;
        expect(&held, 1, &["is paused (run rollout resume first)"]);
        let tried = stage
            .kruise(&["rollout", "resume", "clone/web", "--dry-run=server"])
            .await;
        assert_eq!(
            printed(&tried),
            "cloneset.apps.kruise.io/web resumed (server dry run)\n"
        );
        assert_eq!(strategy().await["paused"], true, "nothing was written");
        let resumed = stage.kruise(&["rollout", "resume", "clone", "-l", "app=none"]).await;
        expect(&resumed, 0, &["No resources found."]);
        let resumed = stage.kruise(&["rollout", "resume", "clone", "--all"]).await;
        assert_eq!(printed(&resumed), "cloneset.apps.kruise.io/web resumed\n");
        assert_ne!(strategy().await["paused"], true);

        let step = stage.kruise(&["promote", "clone/web"]).await;
        let done = "cloneset.apps.kruise.io/web promoted (partition 80% -> 60%, 2 of 5 may be updated)\n";
        assert_eq!(printed(&step), done);
        assert_eq!(strategy().await["partition"], "60%");
        let full = stage.kruise(&["promote", "clone/web", "--full"]).await;
        assert_eq!(full.status.code(), Some(0));
        assert_eq!(strategy().await["partition"], "0%");
        let nothing = stage.kruise(&["promote", "clone/web"]).await;
        expect(&nothing, 0, &["cloneset.apps.kruise.io/web is fully promoted already"]);

        let restarted = stage.kruise(&["rollout", "restart", "clone/web"]).await;
        assert_eq!(printed(&restarted), "cloneset.apps.kruise.io/web restarted\n");
        let container = spec(&stage).await["template"]["spec"]["containers"][0].clone();
        assert_eq!(
            (&container["env"][0]["name"], &container["image"]),
            (&json!("RESTARTED_AT"), &json!("nginx"))
        );

        // The same field is in another place in the older version.
        let old = stage
            .kruise(&["rollout", "pause", "clonesets.v1alpha1.apps.kruise.io/web"])
            .await;
        assert_eq!(printed(&old), "cloneset.apps.kruise.io/web paused\n");
        let stored = sets(&stage, "v1alpha1").get("web").await.unwrap().data["spec"]["updateStrategy"].clone();
        assert_eq!(
            (&stored["paused"], &stored["rollingUpdate"]),
            (&json!(true), &Value::Null)
        );
    });
}

#[test]
fn given_a_cluster_with_the_older_version_only_then_every_command_speaks_it() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("older").await;
        stage.with_old_version_only().await;
        for (words, line) in [
            (&["get", "clone/web"][..], "cloneset/web   5"),
            (
                &["rollout", "status", "clone/web", "--watch=false"],
                "2 out of 5 new pods have been updated",
            ),
            (&["rollout", "pause", "clone/web"], "cloneset.apps.kruise.io/web paused"),
            (
                &["set", "image", "clone/web", "main=nginx:2"],
                "cloneset.apps.kruise.io/web image updated",
            ),
            (
                &["scale", "clone/web", "--replicas", "4"],
                "cloneset.apps.kruise.io/web scaled",
            ),
            (&["describe", "clone/web"], "CloneSet.apps.kruise.io (v1alpha1)"),
        ] {
            expect(&stage.kruise(words).await, 0, &[line]);
        }
        expect(&stage.explain(&["clone/web"]).await, 3, &["4 wanted, 5 there"]);
        let written = sets(&stage, "v1alpha1").get("web").await.unwrap().data["spec"].clone();
        assert_eq!(
            (&written["updateStrategy"]["paused"], &written["replicas"]),
            (&json!(true), &json!(4))
        );
        assert_eq!(written["template"]["spec"]["containers"][0]["image"], "nginx:2");
        stage.without_kind().await;
    });
}

#[test]
fn given_a_deployment_then_it_is_steered_as_kubectl_does_it() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::new("native").await;
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = stage.namespace.api();
        let container = json!({"name": "main", "image": "nginx:1"});
        let template = json!({"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}});
        let api = json!({"metadata": {"name": "api"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "api"}}, "template": template}});
        let api = serde_json::from_value(api).unwrap();
        deployments.create(&PostParams::default(), &api).await.unwrap();
        let done = stage.kruise(&["rollout", "status", "deploy/api"]).await;
        expect(&done, 0, &["deployment \"api\" successfully rolled out"]);
        let set = stage.kruise(&["set", "image", "deploy/api", "main=nginx:2"]).await;
        assert_eq!(printed(&set), "deployment.apps/api image updated\n");
        let done = stage.kruise(&["rollout", "status", "deploy/api"]).await;
        expect(&done, 0, &["deployment \"api\" successfully rolled out"]);
        let history = stage.kruise(&["rollout", "history", "deploy/api"]).await;
        assert_eq!(
            printed(&history),
            "deployment.apps/api\nREVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n\n"
        );
        let undone = stage.kruise(&["rollout", "undo", "deploy/api"]).await;
        assert_eq!(printed(&undone), "deployment.apps/api rolled back\n");
        let image = || async {
            let api = serde_json::to_value(deployments.get("api").await.unwrap()).unwrap();
            let image = api.pointer("/spec/template/spec/containers/0/image").unwrap();
            image.as_str().unwrap().to_owned()
        };
        assert_eq!(image().await, "nginx:1");
        for (verb, done) in [("restart", "restarted"), ("pause", "paused")] {
            let steered = stage.kruise(&["rollout", verb, "deploy/api"]).await;
            assert_eq!(printed(&steered), format!("deployment.apps/api {done}\n"));
        }
        let refused = stage.kruise(&["rollout", "restart", "deploy/api"]).await;
        expect(
            &refused,
            1,
            &["can't restart paused deployment (run rollout resume first)"],
        );
    });
}
