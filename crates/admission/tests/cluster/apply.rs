//! Manifests are applied over a running installation.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use kruise_admission::descriptor::Configuration;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    kubernetes::{DEFAULT_VERSION, Kubernetes},
    progress::Progress,
};
use serde_json::{Value, json};

use super::{
    installation::{CRDS, Installation, PATIENCE, crd},
    rotation::Load,
};

/// `kubectl apply` as a person types it.
async fn kubectl_apply(manifest: Value) {
    let applied = tokio::task::spawn_blocking(move || {
        let kubectl = Kubernetes::provide(DEFAULT_VERSION, &Progress::quiet())
            .unwrap()
            .part("kubectl");
        let mut child = Command::new(kubectl)
            .args(["apply", "-f", "-", "--kubeconfig"])
            .arg(cluster::kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(manifest.to_string().as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    });
    let output = applied.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn settled(installation: &Installation, what: &str, is_so: impl Fn(&super::installation::Live) -> bool) {
    eventually(PATIENCE, what, || async {
        let live = installation.configuration(Configuration::Mutating).await;
        let trusted = live.bundles().iter().all(|bundle| !bundle.is_empty());
        (trusted && is_so(&live))
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{:#?}", live.entries())))
    })
    .await;
}

#[test]
fn given_manifests_are_applied_again_and_in_a_newer_form_then_no_call_fails_and_the_newer_form_counts() {
    run_test(Duration::from_mins(4), async {
        let installation = Arc::new(Installation::bare("apply").await);
        let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
        let our_service = |mut crd: Value| {
            let service = &mut crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
            service["namespace"] = json!(installation.namespace.name());
            service["name"] = json!("hooks");
            crd
        };
        let mut manifests: Vec<Value> = CRDS.iter().map(|plural| our_service(crd(plural))).collect();
        for configuration in Configuration::BOTH {
            let mut manifest = installation.manifest(configuration);
            // Only the chart resets the template; manifests that people keep do not mention it.
            manifest["metadata"].as_object_mut().unwrap().remove("annotations");
            manifests.push(manifest);
        }
        kubectl_apply(list(manifests.clone())).await;
        let manager = installation.start_behind_service().await;
        let load = Load::start(&installation);
        load.more(30).await;

        // The same again, CRDs too.
        kubectl_apply(list(manifests.clone())).await;
        load.more(30).await;
        settled(&installation, "all is as it was", |live| {
            live.entry("mcloneset.kb.io").is_some()
        })
        .await;

        // A newer manifest: one entry changed, one gone, one new.
        let mutating = manifests
            .iter_mut()
            .find(|manifest| manifest["kind"] == "MutatingWebhookConfiguration")
            .unwrap();
        let entries = mutating["webhooks"].as_array_mut().unwrap();
        entries.retain(|entry| entry["name"] != "mnodeimage.kb.io");
        for entry in entries.iter_mut() {
            entry["timeoutSeconds"] = json!(7);
        }
        let mut new = entries
            .iter()
            .find(|entry| entry["name"] == "mcloneset.kb.io")
            .unwrap()
            .clone();
        new["name"] = json!("mnew.kb.io");
        entries.push(new);
        kubectl_apply(list(manifests)).await;
        settled(&installation, "the newer manifest counts", |live| {
            live.entry("mnodeimage.kb.io").is_none()
                && live.entry("mnew.kb.io").is_some()
                && live.entries().iter().all(|entry| entry["timeoutSeconds"] == 7)
        })
        .await;
        load.more(30).await;
        load.end().await;
        manager.stop().await;

        // It still counts after a restart.
        let manager = installation.start_behind_service().await;
        settled(&installation, "the newer manifest still counts", |live| {
            live.entry("mnodeimage.kb.io").is_none() && live.entry("mnew.kb.io").is_some()
        })
        .await;
        manager.stop().await;
    });
}
