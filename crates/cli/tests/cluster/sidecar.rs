//! `sidecar plan`: what would be injected into a Pod of a file and into one that is there.

use super::stage::Stage;
use k8s_openapi::api::core::v1::Pod;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::run_test,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::{process::Output, time::Duration};

fn text(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    stdout + &stderr
}

#[test]
fn given_a_file_or_a_pod_then_it_is_told_which_sets_apply_and_why_others_do_not() {
    run_test(Duration::from_mins(2), async {
        let stage = Stage::with_kind("sidecar", "sidecarsets.apps.kruise.io").await;
        let space = stage.namespace.name();
        let sets: Api<SidecarSet> = Api::all(stage.client.clone());
        let named = |ending: &str| format!("{space}-{ending}");
        let set = |ending: &str, more: Value| {
            let mut set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": named(ending)},
                "spec": {"selector": {"matchLabels": {"app": space}}, "containers": [
                    {"name": ending, "image": "i:1", "podInjectPolicy": "BeforeAppContainer"}]}});
            kruise_api::merge_patch::merge(&mut set, &more);
            serde_json::from_value::<SidecarSet>(set).unwrap()
        };
        let here = json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}}});
        let there =
            json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}}});
        for made in [set("log", here), set("audit", there)] {
            sets.create(&PostParams::default(), &made).await.unwrap();
        }
        let file = format!("{}/{space}.yaml", env!("CARGO_TARGET_TMPDIR"));
        let web = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, labels: {{app: {space}}}}}\nspec: {{containers: [{{name: main, image: i}}]}}\n"
        );
        std::fs::write(&file, web).unwrap();
        let told = text(&stage.kruise(&["sidecar", "plan", "-f", &file]).await, 0);
        for line in [
            format!("Pod web in namespace {space}: 1 of "),
            format!("{}, as it is now\n  containers: log\n", named("log")),
            format!("  - {}: it does not select the namespace\n", named("audit")),
            "The Pod would have:\n  containers: log, main\n".to_owned(),
        ] {
            assert!(told.contains(&line), "{line:?} is not in {told}");
        }
        let json = text(&stage.kruise(&["sidecar", "plan", "-f", &file, "-o", "json"]).await, 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["applied"][0]["sidecarSet"], named("log"));
        assert_eq!(json["pod"]["spec"]["containers"][0]["image"], "i:1");

        // One that was made while nobody answered.
        let live = pod("web").label("app", space).build();
        stage
            .namespace
            .api::<Pod>()
            .create(&PostParams::default(), &live)
            .await
            .unwrap();
        let told = text(&stage.kruise(&["sidecar", "plan", "pod/web"]).await, 0);
        assert!(told.contains("injected when it was created: none"), "{told}");
        assert!(told.contains("  containers: log, main\n"), "{told}");

        // A revision that is gone.
        let gone = json!({"spec": {"injectionStrategy": {"revision": {"revisionName": "gone", "policy": "Always"}}}});
        sets.create(&PostParams::default(), &set("gone", gone)).await.unwrap();
        let told = text(&stage.kruise(&["sidecar", "plan", "web"]).await, 1);
        let refusal = format!(
            "would be refused: SidecarSet {}: there is no revision gone",
            named("gone")
        );
        assert!(told.contains(&refusal), "{told}");

        text(&stage.kruise(&["sidecar", "plan"]).await, 2);
        let odd = text(&stage.kruise(&["sidecar", "plan", "deploy/web"]).await, 1);
        assert!(odd.contains("name a Pod: pod/NAME"), "{odd}");
        let missing = text(&stage.kruise(&["sidecar", "plan", "-f", "/no/such/file"]).await, 1);
        assert!(missing.contains("cannot read /no/such/file"), "{missing}");
        for ending in ["log", "audit", "gone"] {
            sets.delete(&named(ending), &DeleteParams::default()).await.unwrap();
        }
    });
}
