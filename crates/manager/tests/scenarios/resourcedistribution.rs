//! ResourceDistributions: copies in many namespaces.

mod admission;
mod copies;
mod examples;
mod namespaces;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_testkit::{
    eventually::{NotYet, eventually},
    namespace::{self, FreshNamespace},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

const HASH: &str = "kruise.io/resourcedistribution.resource.hashcode";
const FROM: &str = "kruise.io/resourcedistribution.resource.from";

pub(crate) fn all() -> Vec<Scenario> {
    [admission::all(), copies::all(), examples::all(), namespaces::all()]
        .into_iter()
        .flatten()
        .collect()
}

/// A distribution of a ConfigMap that no other scenario distributes; both are called like the scenario's namespace.
struct Distribution {
    name: String,
    all: Api<DynamicObject>,
    stage: Arc<Stage>,
}

impl Distribution {
    fn new(stage: &Arc<Stage>) -> Self {
        Self::named(stage, stage.namespace())
    }

    fn named(stage: &Arc<Stage>, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            all: distributions(stage, "v1beta1"),
            stage: stage.clone(),
        }
    }

    /// What is distributed.
    fn resource(&self, data: &Value) -> Value {
        let name = self.stage.namespace();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"x": "1"}}, "data": data})
    }

    async fn try_create(&self, resource: &Value, targets: &Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "metadata": {"name": self.name},
            "spec": {"resource": resource, "targets": targets},
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.all.create(&PostParams::default(), &object).await
    }

    async fn create(&self, targets: &Value) -> DynamicObject {
        self.try_create(&self.resource(&json!({"k": "v1"})), targets)
            .await
            .unwrap()
    }

    async fn try_patch(&self, spec: Value) -> kube::Result<DynamicObject> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.all.patch(&self.name, &PatchParams::default(), &patch).await
    }

    async fn patch(&self, spec: Value) {
        self.try_patch(spec).await.unwrap();
    }

    async fn delete(&self) {
        let _ = self.all.delete(&self.name, &DeleteParams::background()).await;
    }

    /// Waits until the status of the latest generation counts so many, and only these conditions hold, in these namespaces.
    async fn counts(&self, desired: i64, succeeded: i64, failed: i64, bad: &[(&str, &[&str])]) -> Value {
        let expected: Vec<Value> = bad.iter().map(|(kind, namespaces)| json!([kind, namespaces])).collect();
        eventually(PATIENCE, "the status is as expected", || async {
            let object = self.all.get(&self.name).await?;
            let status = &object.data["status"];
            let count = |field: &str| status[field].as_i64().unwrap_or_default();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let holding = conditions.iter().filter(|condition| condition["status"] == "True");
            let holding: Vec<Value> = holding
                .map(|condition| json!([condition["type"], condition["failedNamespaces"]]))
                .collect();
            let is_seen = status["observedGeneration"].as_i64() == object.metadata.generation && conditions.len() == 6;
            if is_seen
                && (count("desired"), count("succeeded"), count("failed")) == (desired, succeeded, failed)
                && holding == expected
            {
                Ok(status.clone())
            } else {
                Err(NotYet::new(format!("{status:#}")))
            }
        })
        .await
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.stage.client(), namespace)
    }

    /// Waits until the copy in a namespace is as wanted; `null` when there is none.
    async fn until(&self, namespace: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let maps = self.maps(namespace);
        eventually(PATIENCE, what, || async {
            let found = maps.get_opt(self.stage.namespace()).await?;
            let found = found
                .map(|found| serde_json::to_value(found).unwrap())
                .unwrap_or_default();
            if wanted(&found) {
                Ok(found)
            } else {
                Err(NotYet::new(format!("{found:#}")))
            }
        })
        .await
    }

    /// Waits until the copy has this data.
    async fn has(&self, namespace: &str, data: &Value) -> Value {
        self.until(namespace, "the copy is there", |copy| copy["data"] == *data)
            .await
    }

    async fn has_none(&self, namespace: &str) {
        self.until(namespace, "there is no copy", Value::is_null).await;
    }

    async fn edit(&self, namespace: &str, patch: Value) {
        let maps = self.maps(namespace);
        maps.patch(self.stage.namespace(), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Puts a ConfigMap of the same name there that is somebody else's.
    async fn foreign(&self, namespace: &str) {
        let map = json!({"metadata": {"name": self.stage.namespace()}, "data": {"mine": "yes"}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        self.maps(namespace).create(&PostParams::default(), &map).await.unwrap();
    }
}

fn distributions(stage: &Stage, version: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apps.kruise.io",
        version,
        "ResourceDistribution",
    ));
    Api::all_with(stage.client(), &kind)
}

async fn fresh(stage: &Stage, labels: &[(&str, &str)]) -> FreshNamespace {
    namespace::fresh_labelled(&stage.client(), "target", labels)
        .await
        .unwrap()
}

fn listed(names: &[&str]) -> Value {
    json!({"list": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

fn included(names: &[&str]) -> Value {
    json!({"includedNamespaces": listed(names)})
}

fn v1() -> Value {
    json!({"k": "v1"})
}
