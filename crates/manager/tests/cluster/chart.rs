//! What the chart installs, as objects.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kruise_testkit::{
    eventually::{NotYet, eventually},
    kubernetes,
    progress::Progress,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

/// How long a CRD that was taken away may take to go: after an attempt that failed the server tries again a minute later.
const LEAVING: Duration = Duration::from_mins(3);

/// Which of our kinds the cluster gets to know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Those that a test of the process needs; all would take longer.
    Few,
    All,
    /// All that there were in OpenKruise 1.8, as it had them.
    Older,
}

const FEW: [&str; 5] = [
    "clonesets",
    "daemonsets",
    "podunavailablebudgets",
    "sidecarsets",
    "statefulsets",
];

/// Namespaces carry it that webhooks reach; its value is the namespace of their manager.
pub(super) const REACHED: &str = "tests.kruise.io/manager";

/// Gates with rights of their own: some tests turn them on.
const GATES: &str = r"ImagePullJobGate=true\,StatefulSetAutoResizePVCGate=true\,DeletionProtectionForCRDCascadingGate=true\,ResourceDistributionGate=true";

/// What the chart makes for this namespace, its webhooks narrowed down to namespaces that carry its name. What would run is left out.
pub(super) fn rendered(system: &str, kinds: Kinds) -> Vec<Value> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/kruise");
    let output = Command::new(kubernetes::helm(&Progress::quiet()).unwrap())
        .args(["template", "kruise"])
        .arg(chart)
        .args([
            "--set",
            &format!("installation.namespace={system},manager.image.tag=none,ui.enabled=true,featureGates={GATES}"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut objects: Vec<Value> = documents
        .into_iter()
        .filter(|object| is_wanted(object, system, kinds))
        .collect();
    if kinds == Kinds::Older {
        objects.retain_mut(|object| object["kind"] != "CustomResourceDefinition" || as_of_then(object));
    }
    for object in &mut objects {
        let entries = object.get_mut("webhooks").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            entry["namespaceSelector"] = json!({"matchLabels": {REACHED: system}});
        }
    }
    objects
}

/// Makes a CRD what it was in OpenKruise 1.8: but for StatefulSets there was one version, and no EphemeralJob at all.
pub(super) fn as_of_then(crd: &mut Value) -> bool {
    let name = name(crd);
    if name.starts_with("ephemeraljobs.") {
        return false;
    }
    if !name.starts_with("statefulsets.") {
        let spec = crd["spec"].as_object_mut().unwrap();
        spec.remove("conversion");
        let versions = spec["versions"].as_array_mut().unwrap();
        versions.retain(|version| version["name"] == "v1alpha1");
        versions[0]["storage"] = json!(true);
    }
    true
}

fn is_wanted(object: &Value, system: &str, kinds: Kinds) -> bool {
    let is_of_hook = object["metadata"]["annotations"]["helm.sh/hook"].is_string();
    let name = name(object);
    let is_of_manager = name.starts_with("kruise-") && !name.contains("daemon");
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => {
            kinds != Kinds::Few || FEW.iter().any(|plural| name.starts_with(&format!("{plural}.")))
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => true,
        "ClusterRole" | "ClusterRoleBinding" => is_of_manager && !is_of_hook,
        "Role" | "RoleBinding" | "Secret" | "Service" | "ServiceAccount" => {
            object["metadata"]["namespace"] == system && is_of_manager && !is_of_hook
        }
        _ => false,
    }
}

pub(super) fn carries_ca(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kind == "CustomResourceDefinition" || kind.ends_with("WebhookConfiguration")
}

pub(super) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub(super) async fn apply(client: &Client, object: &Value) {
    let (api, name) = (api(client, object), name(object));
    let params = PatchParams::apply("tests").force();
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{} {name}: {error}", object["kind"]));
    if object["kind"] == "CustomResourceDefinition" {
        eventually(LEAVING, "the CRD is established", || async {
            let live = api.patch(&name, &params, &Patch::Apply(object)).await?;
            if live.metadata.deletion_timestamp.is_some() {
                // Another test took it away. Objects whose controller has ended may hold it.
                release_instances(client, object).await?;
                return Err(NotYet::new(format!("{name} is being deleted")));
            }
            let conditions = live.data["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let established = conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
            established.then_some(()).ok_or_else(|| NotYet::new(live.name_any()))
        })
        .await;
    }
}

/// Takes the finalizers from all objects of a CRD.
async fn release_instances(client: &Client, crd: &Value) -> kube::Result<()> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["storage"] == true) {
        let [group, kind] = [&spec["group"], &spec["names"]["kind"]].map(|value| value.as_str().unwrap());
        let of_kind = GroupVersionKind::gvk(group, version["name"].as_str().unwrap(), kind);
        let resource = ApiResource::from_gvk_with_plural(&of_kind, spec["names"]["plural"].as_str().unwrap());
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for held in all.list(&ListParams::default()).await?.items {
            let one = match &held.metadata.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => all.clone(),
            };
            let freed = json!({"metadata": {"finalizers": null}});
            match one
                .patch(&held.name_any(), &PatchParams::default(), &Patch::Merge(&freed))
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
    }
    Ok(())
}

/// A kubeconfig with no more rights than the chart gives the manager.
pub(super) fn as_service_account(kubeconfig: &Path, namespace: &str, folder: &Path) -> PathBuf {
    let mut config = Kubeconfig::read_from(kubeconfig).unwrap();
    for user in config.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        user.impersonate = Some(format!("system:serviceaccount:{namespace}:kruise-manager"));
        user.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
        ]);
    }
    let file = folder.join("kubeconfig");
    std::fs::write(&file, serde_json::to_string(&config).unwrap()).unwrap();
    file
}

pub(super) async fn config(kubeconfig: &Path) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap()
}
