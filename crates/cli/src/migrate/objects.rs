//! Deployments and CloneSets: what one has of the other, and how far the one is that is read.

use super::steps::Goal;
use anyhow::{Result, bail};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    kind::Kind as _,
    names::{annotation::MIGRATION, group},
};
use kruise_core::conversion::convert;
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Annotations that tell of the source only.
const OF_SOURCE: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/",
    "kubernetes.io/change-cause",
    MIGRATION,
];

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    CloneSet,
}

impl Kind {
    pub(super) fn named(word: &str) -> Result<Self> {
        let word = word.to_lowercase();
        match word.split('.').next().unwrap_or_default() {
            "deployment" | "deployments" | "deploy" => Ok(Self::Deployment),
            "cloneset" | "clonesets" | "clone" => Ok(Self::CloneSet),
            _ => bail!("{word} cannot be migrated: currently only supported are Deployment and CloneSet"),
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Deployment => Self::CloneSet,
            Self::CloneSet => Self::Deployment,
        }
    }

    /// The name of the resource, as errors of the API server have it.
    pub(super) fn plural(self) -> String {
        match self {
            Self::Deployment => "deployments.apps".to_owned(),
            Self::CloneSet => format!("{}.{}", CloneSet::PLURAL, CloneSet::GROUP),
        }
    }

    /// How it is reached; `version` is that of CloneSets.
    pub(super) fn resource(self, version: &str) -> ApiResource {
        let (group, version, kind) = match self {
            Self::Deployment => ("apps", "v1", "Deployment"),
            Self::CloneSet => {
                let (group, version) = version.split_once('/').unwrap_or_default();
                (group, version, "CloneSet")
            }
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deployment => "Deployment",
            Self::CloneSet => "CloneSet",
        })
    }
}

/// `Deployment/web`.
pub(super) fn full_name((kind, name): &(Kind, String)) -> String {
    format!("{kind}/{name}")
}

/// What is kept of a migration that was begun.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Migration {
    /// `Deployment/web`.
    pub(super) from: String,
    /// Replicas that it keeps.
    pub(super) source: i32,
    /// Replicas that the destination has at the end.
    pub(super) destination: i32,
    /// Replicas that it had before.
    pub(super) before: i32,
}

impl Migration {
    /// What was begun and not finished.
    pub(super) fn of(destination: &Value) -> Option<Self> {
        serde_json::from_str(destination["metadata"]["annotations"][MIGRATION].as_str()?).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn goal(&self, surge: i32) -> Goal {
        Goal {
            source: self.source,
            destination: self.destination,
            before: self.before,
            surge,
        }
    }
}

/// The replicas that a workload wants; one when it does not say.
pub(super) fn replicas(object: &Value) -> i32 {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    i32::try_from(replicas).unwrap_or(i32::MAX).max(0)
}

/// The template, as one that was not made yet.
pub(super) fn template(source: &Value) -> Value {
    let mut template = source["spec"]["template"].clone();
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
    }
    template
}

/// Refuses a source that is being rolled out, or that has what the other kind does not have.
pub(super) fn check_settled(kind: Kind, source: &Value) -> Result<()> {
    let status = |field: &str| source["status"][field].as_i64().unwrap_or_default();
    let generation = source["metadata"]["generation"].as_i64().unwrap_or_default();
    let name = source["metadata"]["name"].as_str().unwrap_or_default();
    if source["metadata"].get("deletionTimestamp").is_some() {
        bail!("{kind} {name} is being deleted");
    }
    if status("observedGeneration") < generation || status("updatedReplicas") != status("replicas") {
        bail!("{kind} {name} is being rolled out, or has Pods of two revisions: let that be finished first");
    }
    let has = |field: &str| source["spec"][field].as_array().is_some_and(|list| !list.is_empty());
    if has("volumeClaimTemplates") {
        bail!("{kind} {name} makes claims for its Pods (volumeClaimTemplates), which a Deployment cannot");
    }
    Ok(())
}

/// The other workload, with no Pods.
pub(super) fn copy(source: &Value, kind: Kind, name: &str, version: &str) -> Result<Value> {
    let (from, to) = (&source["spec"], kind);
    let labels = source["metadata"]["labels"].clone();
    let annotations: Map<String, Value> = source["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !OF_SOURCE.iter().any(|known| key.starts_with(known)))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut spec = json!({"replicas": 0, "selector": from["selector"], "template": template(source)});
    for field in ["revisionHistoryLimit", "minReadySeconds"] {
        if let Some(value) = from.get(field) {
            spec[field] = value.clone();
        }
    }
    let budget = |from: &Value| {
        let fields = ["maxSurge", "maxUnavailable"].into_iter();
        let known = fields.filter_map(|field| Some((field.to_owned(), from.get(field)?.clone())));
        Value::Object(known.collect())
    };
    match to {
        Kind::CloneSet => {
            let mut rolling = budget(&from["strategy"]["rollingUpdate"]);
            rolling["podUpdatePolicy"] = json!("ReCreate");
            if from["paused"] == true {
                rolling["paused"] = json!(true);
            }
            spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        }
        Kind::Deployment => {
            let strategy = &from["updateStrategy"];
            // Where the older version has these fields.
            let rolling = strategy.get("rollingUpdate").unwrap_or(strategy);
            spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": budget(rolling)});
            if rolling["paused"] == true {
                spec["paused"] = json!(true);
            }
        }
    }
    let resource = match to {
        Kind::CloneSet => Kind::CloneSet.resource(group::APPS_V1BETA1),
        Kind::Deployment => Kind::Deployment.resource(version),
    };
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec,
    });
    if to == Kind::CloneSet
        && version != resource.api_version
        && let Some(object) = object.as_object_mut()
    {
        convert(object, version)?;
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": {"name": "web", "generation": 1, "labels": {"team": "a"}, "annotations": {"deployment.kubernetes.io/revision": "4",
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "owner": "ann"}},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "minReadySeconds": 3, "progressDeadlineSeconds": 600, "paused": true,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
                "template": {"metadata": {"creationTimestamp": null, "labels": {"app": "web"}}, "spec": {"containers": []}}},
            "status": {"observedGeneration": 1, "replicas": 5, "updatedReplicas": 5},
        })
    }

    #[test]
    fn given_a_deployment_then_its_cloneset_has_no_pods_and_all_else() {
        let set = copy(&deployment(), Kind::CloneSet, "web", "apps.kruise.io/v1beta1").unwrap();
        let expected = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "labels": {"team": "a"}, "annotations": {"owner": "ann"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "minReadySeconds": 3,
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "paused": true, "maxSurge": "25%", "maxUnavailable": 0}}},
        });
        assert_eq!(set, expected);
        let old = copy(&deployment(), Kind::CloneSet, "web", "apps.kruise.io/v1alpha1").unwrap();
        assert_eq!(old["apiVersion"], "apps.kruise.io/v1alpha1");
        assert_eq!(old["spec"]["updateStrategy"]["type"], "ReCreate");
        for set in [set, old] {
            let back = copy(&set, Kind::Deployment, "web", "apps.kruise.io/v1beta1").unwrap();
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}});
            assert_eq!(
                (
                    &back["spec"]["strategy"],
                    &back["spec"]["paused"],
                    &back["spec"]["replicas"]
                ),
                (&strategy, &json!(true), &json!(0))
            );
        }
    }

    #[test]
    fn given_a_source_that_cannot_go_then_it_is_said_why() {
        let fault = |change: Value| {
            let mut source = deployment();
            kruise_api::merge_patch::merge(&mut source, &change);
            check_settled(Kind::CloneSet, &source).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(fault(json!({})), "");
        assert!(fault(json!({"status": {"updatedReplicas": 4}})).contains("is being rolled out"));
        assert!(fault(json!({"metadata": {"generation": 2}})).contains("is being rolled out"));
        assert!(fault(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).contains("is being deleted"));
        assert!(fault(json!({"spec": {"volumeClaimTemplates": [{}]}})).contains("volumeClaimTemplates"));
    }

    #[test]
    fn given_a_migration_that_was_begun_then_it_is_known_again() {
        let migration = Migration {
            from: "Deployment/web".to_owned(),
            source: 1,
            destination: 4,
            before: 0,
        };
        let set = json!({"metadata": {"annotations": {(MIGRATION): migration.text()}}});
        assert_eq!(Migration::of(&set), Some(migration));
        assert_eq!(Migration::of(&json!({"metadata": {}})), None);
    }
}
