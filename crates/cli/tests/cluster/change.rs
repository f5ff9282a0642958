//! `set`, `scale`, `scaledown`, `create`, `describe` and completion: what they tell, and what they write.

use super::{commands::expect, stage::Stage};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::run_test,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::{process::Output, time::Duration};

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn spec(stage: &Stage) -> Value {
    let sets: Api<CloneSet> = stage.namespace.api();
    serde_json::to_value(sets.get("web").await.unwrap().spec).unwrap()
}

#[test]
fn given_a_workload_then_only_what_is_set_is_written_and_nothing_by_a_dry_run() {
    run_test(Duration::from_mins(3), async {
        let stage = Stage::with_cloneset("set").await;
        let before = spec(&stage).await;
        for words in [
            &["set", "image", "clone/web", "main=nginx:2", "--dry-run=client"][..],
            &[
                "set",
                "image",
                "clone/web",
                "main=nginx:2",
                "--dry-run=server",
                "-o",
                "yaml",
            ],
            &["set", "env", "clone/web", "A=1", "--dry-run=client", "-o", "json"],
            &["set", "env", "clone/web", "--list"],
            &["set", "resources", "clone/web", "--limits", "cpu=1", "--dry-run=server"],
        ] {
            let tried = stage.kruise(words).await;
            assert_eq!(tried.status.code(), Some(0), "{words:?} {tried:?}");
        }
        assert_eq!(spec(&stage).await, before, "nothing was written");

        for (words, done) in [
            (
                &["set", "image", "cloneset", "web", "main=nginx:2"][..],
                "image updated",
            ),
            (&["set", "env", "clone/web", "A=1", "B=2"], "env updated"),
            (&["set", "env", "clone/web", "B-"], "env updated"),
            (
                &[
                    "set",
                    "resources",
                    "clone",
                    "--all",
                    "--limits",
                    "cpu=1,memory=1Gi",
                    "--requests",
                    "cpu=500m",
                ],
                "resource requirements updated",
            ),
            (
                &["set", "serviceaccount", "clone", "web", "robot"],
                "serviceaccount updated",
            ),
        ] {
            let changed = stage.kruise(words).await;
            let expected = format!("cloneset.apps.kruise.io/web {done}\n");
            assert_eq!(
                (changed.status.code(), printed(&changed)),
                (Some(0), expected),
                "{words:?} {changed:?}"
            );
        }
        let pod = spec(&stage).await["template"]["spec"].clone();
        let main = &pod["containers"][0];
        assert_eq!(
            (&main["image"], &pod["serviceAccountName"]),
            (&json!("nginx:2"), &json!("robot"))
        );
        assert_eq!(main["env"], json!([{"name": "A", "value": "1"}]));
        assert_eq!(
            main["resources"],
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
        );
        let same = stage.kruise(&["set", "image", "clone/web", "*=nginx:2"]).await;
        assert_eq!((same.status.code(), printed(&same).as_str()), (Some(0), ""));
        let listed = stage.kruise(&["set", "env", "clone/web", "--list"]).await;
        assert_eq!(printed(&listed), "# CloneSet web, container main\nA=1\n");
        for (words, error) in [
            (
                &["set", "image", "clone/web", "x=y"][..],
                "error: unable to find container named \"x\"",
            ),
            (
                &["set", "image", "clone/web"],
                "error: at least one image update is required",
            ),
            (
                &["set", "env", "clone/web"],
                "error: at least one environment variable must be provided",
            ),
            (
                &["set", "env", "clone/web", "A=2", "--overwrite=false"],
                "error: 'A' already has a value (1)",
            ),
            (&["set", "resources", "clone/web"], "error: you must specify an update"),
            (&["set", "image", "clone", "main=x"], "error: say which"),
            (
                &["set", "image", "clone/web", "main=x", "--as", "nobody"],
                "User \"nobody\" cannot get",
            ),
        ] {
            expect(&stage.kruise(words).await, 1, &[error]);
        }
    });
}

#[test]
fn given_variables_from_elsewhere_then_their_values_are_listed() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("resolve").await;
        let maps: Api<ConfigMap> = stage.namespace.api();
        let map = json!({"metadata": {"name": "settings"}, "data": {"level": "debug"}});
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let referred = ["set", "env", "clone/web", "--from", "configmap/settings"];
        expect(&stage.kruise(&referred).await, 0, &["env updated"]);
        let resolved = stage.kruise(&["set", "env", "clone/web", "--list", "--resolve"]).await;
        assert_eq!(printed(&resolved), "# CloneSet web, container main\nLEVEL=debug\n");
    });
}

#[test]
fn given_a_kustomization_then_kubectl_builds_it_and_its_objects_are_changed() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("kustomize").await;
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("kustomization.yaml", "namePrefix: w\nresources: [set.yaml]\n");
        write(
            "set.yaml",
            "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: eb}\n",
        );
        let path = folder.path().to_str().unwrap();
        let told = stage
            .kruise_beside_kubectl(&["set", "image", "-k", path, "main=nginx:3"])
            .await;
        expect(&told, 0, &["cloneset.apps.kruise.io/web image updated"]);
        assert_eq!(
            spec(&stage).await["template"]["spec"]["containers"][0]["image"],
            "nginx:3"
        );
        let both = ["set", "image", "-k", path, "-f", path, "main=x"];
        expect(&stage.kruise_beside_kubectl(&both).await, 2, &["cannot be used with"]);
        let nothing = stage
            .kruise_beside_kubectl(&["set", "image", "-k", "/no/such", "main=x"])
            .await;
        expect(&nothing, 1, &["/no/such"]);
    });
}

#[test]
fn given_a_spec_that_has_changed_then_the_api_server_refuses_a_patch_that_tests_it() {
    run_test(Duration::from_mins(1), async {
        let stage = Stage::with_cloneset("tested").await;
        let path = format!(
            "/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets/web",
            stage.namespace.name()
        );
        let patch = json!([
            {"op": "test", "path": "/metadata/generation", "value": 77},
            {"op": "replace", "path": "/spec/replicas", "value": 1},
        ]);
        let request = http::Request::patch(path)
            .header("content-type", "application/json-patch+json")
            .body(patch.to_string().into_bytes())
            .unwrap();
        let answer: Result<Value, _> = stage.client.request(request).await;
        let Err(kube::Error::Api(status)) = answer else {
            panic!("it is written: {answer:?}");
        };
        // The plugin reads and decides again when it sees this.
        assert_eq!(status.code, 422, "{status:?}");
        assert!(status.message.contains("rejected our request"), "{status:?}");
        assert!(status.details.is_none_or(|details| details.causes.is_empty()));
        assert_eq!(spec(&stage).await["replicas"], 5);
    });
}

#[test]
fn given_a_workload_then_it_is_scaled_and_named_pods_go() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("scale").await;
        let scaled = stage
            .kruise(&["scale", "clone/web", "--replicas", "6", "--current-replicas", "5"])
            .await;
        assert_eq!(printed(&scaled), "cloneset.apps.kruise.io/web scaled\n", "{scaled:?}");
        assert_eq!(spec(&stage).await["replicas"], 6);
        let other = stage
            .kruise(&["scale", "clone/web", "--replicas", "9", "--current-replicas", "5"])
            .await;
        expect(&other, 1, &["error: Expected replicas to be 5, was 6"]);
        let tried = stage
            .kruise(&["scale", "clone/web", "--replicas", "9", "--dry-run=server"])
            .await;
        assert_eq!(printed(&tried), "cloneset.apps.kruise.io/web scaled (server dry run)\n");

        let sets: Api<CloneSet> = stage.namespace.api();
        let uid = sets.get("web").await.unwrap().metadata.uid.unwrap();
        let pods: Api<Pod> = stage.namespace.api();
        for name in ["web-a", "web-b", "stray"] {
            let mut value = pod(name).image("nginx").label("app", "web").json();
            if name != "stray" {
                value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": uid,
                    "controller": true, "blockOwnerDeletion": false}]);
            }
            pods.create(&PostParams::default(), &serde_json::from_value(value).unwrap())
                .await
                .unwrap();
        }
        for names in ["stray", "gone", "web-a,gone"] {
            let refused = stage.kruise(&["scaledown", "web", "--pods", names]).await;
            expect(&refused, 1, &["error: scaledown cloneset web failed, error is Pod "]);
        }
        assert_eq!(spec(&stage).await["replicas"], 6, "none was lost");
        let gone = stage
            .kruise(&["scaledown", "cloneset", "web", "--pods", "web-a, web-b"])
            .await;
        assert_eq!(
            printed(&gone),
            "# web delete pods [web-a web-b] successfully\ncloneset.apps.kruise.io/web selective pod deletion\n"
        );
        let spec = spec(&stage).await;
        assert_eq!(
            (&spec["replicas"], &spec["scaleStrategy"]["podsToDelete"]),
            (&json!(4), &json!(["web-a", "web-b"]))
        );

        let page = stage.kruise(&["describe", "clone", "web"]).await;
        expect(
            &page,
            0,
            &[
                "Name:               web",
                "Kind:               CloneSet.apps.kruise.io (v1beta1)",
                "  web-a",
                "State:              Not seen yet",
            ],
        );
        assert!(!printed(&page).contains("stray"), "{}", printed(&page));
    });
}

#[test]
fn given_a_schedule_or_a_pod_then_jobs_and_requests_are_made() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_kind("create", "advancedcronjobs.apps.kruise.io").await;
        let made = stage
            .kruise(&["create", "job", "hello", "--image", "busybox", "-o", "name"])
            .await;
        assert_eq!(printed(&made), "job.batch/hello\n", "{made:?}");
        let again = stage.kruise(&["create", "job", "hello", "--image", "busybox"]).await;
        expect(
            &again,
            1,
            &["error: failed to create job: jobs.batch \"hello\" already exists"],
        );
        let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}}});
        let nightly = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 0 * * *", "template": {"jobTemplate": template}}});
        let nightly: kruise_api::advancedcronjob::v1beta1::AdvancedCronJob = serde_json::from_value(nightly).unwrap();
        let schedules: Api<kruise_api::advancedcronjob::v1beta1::AdvancedCronJob> = stage.namespace.api();
        schedules.create(&PostParams::default(), &nightly).await.unwrap();
        let made = stage.kruise(&["create", "job", "now", "--from", "acj/nightly"]).await;
        assert_eq!(printed(&made), "job.batch/now created\n", "{made:?}");
        let jobs: Api<Job> = stage.namespace.api();
        let job = jobs.get("now").await.unwrap();
        let owner = job.metadata.owner_references.unwrap().remove(0);
        assert_eq!((owner.kind.as_str(), owner.controller), ("AdvancedCronJob", None));
        let wrong = stage
            .kruise(&["create", "broadcastJob", "now", "--from", "acj/nightly"])
            .await;
        expect(
            &wrong,
            1,
            &["error: failed to create job: from must be a broadcastJob template"],
        );
        let none = stage.kruise(&["create", "job", "--image", "x"]).await;
        expect(&none, 1, &["exactly one NAME is required, got 0"]);

        let pods: Api<Pod> = stage.namespace.api();
        let web = pod("web").image("nginx").container("side", "log");
        pods.create(&PostParams::default(), &web.build()).await.unwrap();
        let tried = stage
            .kruise(&[
                "create",
                "crr",
                "r",
                "-p",
                "web",
                "--containers",
                "side",
                "-u",
                "9",
                "--dry-run=client",
                "-o",
                "json",
            ])
            .await;
        let request: Value = serde_json::from_slice(&tried.stdout).unwrap();
        assert_eq!(request["spec"]["containers"], json!([{"name": "side"}]));
        assert_eq!(request["spec"]["strategy"]["unreadyGracePeriodSeconds"], 9);
    });
}

#[test]
fn given_the_tab_key_then_names_of_objects_are_offered() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("complete").await;
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_kubectl-kruise"));
        let kubeconfig = kruise_testkit::cluster::kubeconfig();
        command.arg("__complete").arg("--kubeconfig").arg(kubeconfig);
        command.args(["-n", stage.namespace.name(), "rollout", "undo", "clone/w"]);
        let offered = command.output().await.unwrap();
        assert_eq!(printed(&offered), "clone/web\n:4\n");
    });
}
