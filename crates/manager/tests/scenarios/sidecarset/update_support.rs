//! A SidecarSet for one scenario, and Pods into which it was injected.
//!
//! Sets of [`Set::create`] have their injection paused, and the Pods are made as injection makes them: so these scenarios are about what comes afterwards. Those
//! of [`Set::injecting`] are injected by the webhook.

use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{Event, Pod},
};
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_core::sidecarset::hash::Hashes;
use kruise_testkit::{
    builders::{Fixture as _, PodBuilder, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Stage};

/// The label by which the set of a scenario finds its Pods.
pub(super) const LABEL: &str = "side";

pub(super) struct Set<'a> {
    pub(super) stage: &'a Stage,
    pub(super) name: String,
    sets: Api<DynamicObject>,
}

pub(super) fn container(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"},
        "upgradeStrategy": {"upgradeType": "ColdUpgrade"}})
}

pub(super) fn hot(name: &str, image: &str) -> Value {
    let mut container = container(name, image);
    container["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    container
}

impl<'a> Set<'a> {
    /// Makes the set, called like the namespace of the scenario.
    pub(super) async fn create(stage: &'a Stage, containers: &[Value], more: &Value) -> Self {
        let mut spec = json!({"containers": containers, "injectionStrategy": {"paused": true}});
        kruise_api::merge_patch::merge(&mut spec, more);
        Self::injecting(stage, "", &json!({ "spec": spec })).await
    }

    /// Makes a set that is injected into Pods from now on. Its name is that of the namespace, with an ending.
    pub(super) async fn injecting(stage: &'a Stage, ending: &str, more: &Value) -> Self {
        let made = Self::try_injecting(stage, ending, more).await;
        made.unwrap_or_else(|refusal| panic!("{more}: {refusal}"))
    }

    /// The same, or why it is refused.
    pub(super) async fn try_injecting(stage: &'a Stage, ending: &str, more: &Value) -> Result<Self, String> {
        let sets = sets(stage, "v1beta1");
        let name = format!("{}{ending}", stage.namespace());
        let mut set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {LABEL: stage.namespace()}}}});
        kruise_api::merge_patch::merge(&mut set, more);
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        let made = sets.create(&PostParams::default(), &set).await;
        made.map_err(|error| error.to_string())?;
        let this = Self { stage, name, sets };
        // From here on the cache of the manager has it, by which Pods are judged.
        this.status(&json!({})).await;
        Ok(this)
    }

    pub(super) async fn get(&self) -> Value {
        serde_json::to_value(self.sets.get(&self.name).await.unwrap()).unwrap()
    }

    pub(super) async fn patch(&self, patch: &Value) {
        self.try_patch(patch).await.unwrap();
    }

    /// A merge patch, or why it is refused.
    pub(super) async fn try_patch(&self, patch: &Value) -> Result<(), String> {
        let params = PatchParams::default();
        let patched = self.sets.patch(&self.name, &params, &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// Gives the first container another image.
    pub(super) async fn image(&self, image: &str) {
        let mut containers = self.get().await["spec"]["containers"].clone();
        containers[0]["image"] = json!(image);
        self.patch(&json!({"spec": {"containers": containers}})).await;
    }

    pub(super) async fn delete(&self) {
        self.sets.delete(&self.name, &DeleteParams::background()).await.unwrap();
    }

    /// Makes a Pod as injection does.
    pub(super) async fn pod(&self, name: &str) {
        let set: SidecarSet = serde_json::from_value(self.get().await).unwrap();
        let now = Hashes::of_set(&set);
        let mut made = pod(name)
            .image("app:1")
            .label(LABEL, &self.name)
            .on_node(&self.stage.node(0));
        let mut working = json!({});
        let mut list = Vec::new();
        for sidecar in &set.spec.containers {
            list.push(sidecar.name().to_owned());
            let strategy = &sidecar.policy.upgrade_strategy;
            if strategy.hot_upgrade_empty_image.is_empty() {
                made = made.container(sidecar.name(), sidecar.image());
                continue;
            }
            let images = [sidecar.image(), &strategy.hot_upgrade_empty_image];
            for (number, image) in (1..).zip(images) {
                let name = format!("{}-{number}", sidecar.name());
                let (version, other) = if number == 1 { ("1", "0") } else { ("0", "1") };
                made = made
                    .container(&name, image)
                    .annotation(&format!("version.sidecarset.kruise.io/{name}"), version)
                    .annotation(&format!("versionalt.sidecarset.kruise.io/{name}"), other);
            }
            working[sidecar.name()] = json!(format!("{}-1", sidecar.name()));
        }
        let record = |hash: &str| {
            json!({&self.name: {"updateTimestamp": "2024-05-01T08:00:00Z", "hash": hash, "sidecarSetName": self.name, "sidecarList": list}})
                .to_string()
        };
        made = made
            .annotation("kruise.io/sidecarset-hash", record(&now.hash))
            .annotation("kruise.io/sidecarset-hash-without-image", record(&now.without_image))
            .annotation("kruise.io/sidecarset-injected-list", &self.name);
        if working != json!({}) {
            made = made.annotation("kruise.io/sidecarset-working-hotupgrade-container", working.to_string());
        }
        self.stage
            .pods
            .create(&PostParams::default(), &made.build())
            .await
            .unwrap();
    }

    /// Waits until fields of the status are as said, for the latest generation.
    pub(super) async fn status(&self, expected: &Value) -> Value {
        eventually(PATIENCE, "the status is as expected", || async {
            let set = serde_json::to_value(self.sets.get(&self.name).await?).unwrap();
            let status = &set["status"];
            let seen = status["observedGeneration"] == set["metadata"]["generation"];
            // Zero may be left out.
            let is = |field: &Value, value: &Value| field == value || (field.is_null() && *value == json!(0));
            let fields = expected.as_object().unwrap();
            if seen && fields.iter().all(|(field, value)| is(&status[field], value)) {
                Ok(status.clone())
            } else {
                Err(NotYet::new(format!("{expected} is not in {status:#}")))
            }
        })
        .await
    }

    pub(super) async fn pods(&self) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("{LABEL}={}", self.name));
        self.stage.pods.list(&params).await.unwrap().items
    }

    /// The revisions, oldest first.
    pub(super) async fn revisions(&self) -> Vec<ControllerRevision> {
        let params = ListParams::default().labels(&format!("kruise.io/sidecarset-name={}", self.name));
        let all: Api<ControllerRevision> = Api::all(self.stage.client());
        let mut all = all.list(&params).await.unwrap().items;
        all.sort_by_key(|revision| revision.revision);
        all
    }

    /// Waits for an event about the set.
    pub(super) async fn event(&self, reason: &str, text: &str) {
        let events: Api<Event> = Api::namespaced(self.stage.client(), "default");
        let params = ListParams::default().fields(&format!("involvedObject.name={},reason={reason}", self.name));
        eventually(PATIENCE, "an event tells it", || async {
            let found = events.list(&params).await?.items;
            let told = |event: &Event| event.message.as_deref().is_some_and(|message| message.contains(text));
            found
                .iter()
                .any(told)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found:?}")))
        })
        .await;
    }
}

/// SidecarSets in one version.
pub(super) fn sets(stage: &Stage, version: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, "SidecarSet"));
    Api::all_with(stage.client(), &kind)
}

/// A Pod that the sets of the scenario select.
pub(super) fn selected(stage: &Stage, name: &str) -> PodBuilder {
    pod(name)
        .image("app:1")
        .label(LABEL, stage.namespace())
        .on_node(&stage.node(0))
}

/// Creates a Pod, and returns what became of it on its way in.
pub(super) async fn injected(stage: &Stage, pod: PodBuilder) -> Value {
    let made = stage.pods.create(&PostParams::default(), &pod.build()).await;
    json!(made.unwrap())
}

/// What would become of a Pod, or why it is refused.
pub(super) async fn tried(stage: &Stage, pod: PodBuilder) -> Result<Value, String> {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = stage.pods.create(&dry_run, &pod.build()).await;
    made.map(|pod| json!(pod)).map_err(|error| error.to_string())
}

/// Names in a list.
pub(super) fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str()).collect()
}

/// What an annotation of a Pod says about a set.
pub(super) fn record(pod: &Value, key: &str, set: &str) -> Value {
    let text = pod["metadata"]["annotations"][key].as_str().unwrap_or("{}");
    serde_json::from_str::<Value>(text).unwrap()[set].take()
}

/// The image of a container.
pub(super) fn image(pod: &Pod, name: &str) -> String {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let found = containers.iter().find(|container| container.name == name);
    found.and_then(|container| container.image.clone()).unwrap_or_default()
}

/// A condition: status, reason and message.
pub(super) fn condition(pod: &Pod, kind: &str) -> [String; 3] {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
    let found = conditions
        .unwrap_or_default()
        .into_iter()
        .find(|condition| condition.type_ == kind);
    found.map_or_else(Default::default, |found| {
        [
            found.status,
            found.reason.unwrap_or_default(),
            found.message.unwrap_or_default(),
        ]
    })
}

pub(super) fn annotation(pod: &Pod, key: &str) -> String {
    pod.annotations().get(key).cloned().unwrap_or_default()
}
