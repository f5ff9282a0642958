//! `plan` where no manager answers, `exec` before anything runs, and `expose`: what is told, and what is written.

use super::{explain::expect, stage::Stage};
use k8s_openapi::api::core::v1::{Pod, Service};
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_testkit::{builders::pod, eventually::run_test};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// A file that is gone with the test.
struct File(PathBuf);

impl File {
    fn of(namespace: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{namespace}.yaml"));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn given_no_manager_then_plan_tells_what_is_changed_and_changes_nothing() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("plan").await;
        let sets: Api<CloneSet> = stage.namespace.api();
        let before = sets.get("web").await.unwrap();
        let text = "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: web}\nspec: {replicas: 7}\n";
        let file = File::of(stage.namespace.name(), text);
        let told = stage.kruise(&["plan", "-f", file.name()]).await;
        let object = format!("CloneSet {}/web: would be changed", stage.namespace.name());
        let lines = [
            &*object,
            "  - spec.replicas: 5 → 7",
            "The manager cannot be asked: no manager answers such questions",
        ];
        expect(&told, 3, &lines);
        let json = stage.kruise(&["plan", "-f", file.name(), "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            json["items"][0]["changes"],
            json!([{"path": "spec.replicas", "from": 5, "to": 7}])
        );
        assert_eq!(sets.get("web").await.unwrap(), before);

        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api}\n---\napiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: new}\nspec: {}\n";
        let file = File::of(stage.namespace.name(), text);
        let told = stage.kruise(&["plan", "-f", file.name()]).await;
        let new = format!("CloneSet {}/new: would be created", stage.namespace.name());
        expect(
            &told,
            1,
            &["Deployment api: unknown", "it is no kind of OpenKruise", &new],
        );
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
        expect(
            &stage.kruise(&["plan", "-f", "/no/such/file"]).await,
            1,
            &["cannot read /no/such/file"],
        );
    });
}

#[test]
fn given_a_set_then_expose_makes_its_service_unless_it_is_a_dry_run() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("expose").await;
        let services: Api<Service> = stage.namespace.api();
        let port = ["expose", "cloneset", "web", "--port", "80", "--target-port", "8080"];
        let with = |more: &[&'static str]| [&port[..], more].concat();
        expect(
            &stage.kruise(&with(&["--dry-run", "client"])).await,
            0,
            &["service/web exposed (dry run)"],
        );
        expect(
            &stage.kruise(&with(&["--dry-run", "server"])).await,
            0,
            &["service/web exposed (server dry run)"],
        );
        assert!(services.list(&ListParams::default()).await.unwrap().items.is_empty());
        expect(&stage.kruise(&port).await, 0, &["service/web exposed"]);
        let made = serde_json::to_value(services.get("web").await.unwrap()).unwrap();
        let set: Api<CloneSet> = stage.namespace.api();
        let set = serde_json::to_value(set.get("web").await.unwrap()).unwrap();
        assert_eq!(made["spec"]["selector"], set["spec"]["selector"]["matchLabels"]);
        assert_eq!(
            made["spec"]["ports"],
            json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}])
        );
        expect(&stage.kruise(&port).await, 1, &["services \"web\" already exists"]);
        expect(
            &stage.kruise(&["expose", "cloneset", "web"]).await,
            1,
            &["couldn't find port via --port flag"],
        );
        expect(
            &stage.kruise(&["expose", "ud/web", "--port", "80"]).await,
            1,
            &["cannot expose a UnitedDeployment"],
        );
    });
}

#[test]
fn given_pods_that_do_not_run_then_exec_says_what_it_waited_for() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_cloneset("exec").await;
        let nobody = ["exec", "cloneset/web", "--pod-running-timeout", "1s", "--", "date"];
        expect(
            &stage.kruise(&nobody).await,
            1,
            &["there is no Pod, and was waited for as long as allowed"],
        );
        let pods: Api<Pod> = stage.namespace.api();
        let one = pod("one").image("nginx").build();
        pods.create(&PostParams::default(), &one).await.unwrap();
        let waits = ["exec", "one", "--pod-running-timeout", "1s", "--", "date"];
        expect(
            &stage.kruise(&waits).await,
            1,
            &["pod one does not run: its phase is Pending"],
        );
        let over = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        pods.patch_status("one", &PatchParams::default(), &over).await.unwrap();
        let over = "cannot exec into a container in a completed pod; current phase is Succeeded";
        expect(&stage.kruise(&["exec", "one", "--", "date"]).await, 1, &[over]);
        expect(
            &stage.kruise(&["exec", "none", "--", "date"]).await,
            1,
            &["pods \"none\" not found"],
        );
        expect(
            &stage.kruise(&["exec", "one"]).await,
            2,
            &["Usage: kubectl kruise exec"],
        );
    });
}
