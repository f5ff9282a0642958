//! Which Pod, and which of its containers.

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kruise_api::{
    cloneset, daemonset,
    names::{annotation::SIDECAR_SET_WORKING_CONTAINER, group::V1ALPHA1},
    registry::{KindInfo, VersionInfo},
    statefulset,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use std::{cmp::Reverse, collections::BTreeMap};

/// The container that a Pod says is meant.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// What has Pods.
#[derive(Debug)]
pub(super) enum Kind {
    Pod,
    Ours(&'static KindInfo),
    /// Group, version and kind.
    Native(&'static str, &'static str, &'static str),
}

const OURS: [&KindInfo; 3] = [&cloneset::KIND, &statefulset::KIND, &daemonset::KIND];

/// Words, and the kind that they mean.
const NATIVE: [(&[&str], &str, &str, &str); 7] = [
    (&["deployment", "deployments", "deploy"], "apps", "v1", "Deployment"),
    (&["replicaset", "replicasets", "rs"], "apps", "v1", "ReplicaSet"),
    (&["statefulset", "statefulsets", "sts"], "apps", "v1", "StatefulSet"),
    (&["daemonset", "daemonsets", "ds"], "apps", "v1", "DaemonSet"),
    (&["job", "jobs"], "batch", "v1", "Job"),
    (&["service", "services", "svc"], "", "v1", "Service"),
    (
        &["replicationcontroller", "replicationcontrollers", "rc"],
        "",
        "v1",
        "ReplicationController",
    ),
];

impl Kind {
    fn named(word: &str) -> Result<Self> {
        let word = word.to_lowercase();
        let (plain, group) = word.split_once('.').unwrap_or((&word, ""));
        if matches!(plain, "pod" | "pods" | "po") {
            return Ok(Self::Pod);
        }
        let is_native = |(words, of, _, _): &&(&[&str], &str, &str, &str)| {
            words.contains(&plain) && (group.is_empty() || group == *of)
        };
        if let Some((_, group, version, kind)) = NATIVE.iter().find(is_native) {
            return Ok(Self::Native(group, version, kind));
        }
        let is_ours =
            |info: &&&KindInfo| plain == info.plural || plain == info.singular() || info.short_names.contains(&plain);
        match OURS.iter().find(is_ours) {
            Some(info) => Ok(Self::Ours(info)),
            None => bail!(
                "cannot attach to {word}: selector for it is not known; name a Pod, or what has Pods: cloneset, asts, ads, deployment, …"
            ),
        }
    }

    /// How it is read; nothing for a Pod.
    pub(super) fn resource(&self) -> Option<ApiResource> {
        match self {
            Self::Pod => None,
            Self::Native(group, version, kind) => {
                Some(ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)))
            }
            Self::Ours(info) => {
                // Every server has it: the older one where there are two.
                let version = info
                    .versions
                    .first()
                    .map_or(V1ALPHA1, |version: &VersionInfo| version.name);
                let kind = GroupVersionKind::gvk(info.group, version, info.kind);
                Some(ApiResource::from_gvk_with_plural(&kind, info.plural))
            }
        }
    }

    /// Whether a Pod that is selected belongs to it: Pods of a Deployment have a ReplicaSet between, and those of a Service nobody.
    pub(super) fn has(&self, pod: &Pod, uid: &str) -> bool {
        match self {
            Self::Pod | Self::Native(_, _, "Deployment" | "Service") => true,
            Self::Ours(_) | Self::Native(..) => {
                let mut owners = pod.metadata.owner_references.iter().flatten();
                owners.any(|owner| owner.uid == uid)
            }
        }
    }
}

/// A Pod, or a kind and a name.
pub(super) fn read(word: &str) -> Result<(Kind, String)> {
    let (kind, name) = match word.split_once('/') {
        Some((kind, name)) => (Kind::named(kind)?, name),
        None => (Kind::Pod, word),
    };
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name");
    }
    Ok((kind, name.to_owned()))
}

/// The one object of a file, and its namespace.
pub(super) fn of_file(text: &str) -> Result<((Kind, String), Option<String>)> {
    let object: Value =
        serde_saphyr::from_str(text).context("the file is neither YAML nor JSON, or has several objects")?;
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = field("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = if group.is_empty() {
        field("/kind").to_owned()
    } else {
        format!("{}.{group}", field("/kind"))
    };
    let named = read(&format!("{kind}/{}", field("/metadata/name")))?;
    let namespace = Some(field("/metadata/namespace").to_owned()).filter(|namespace| !namespace.is_empty());
    Ok((named, namespace))
}

/// The selector of an object, as it stands in a request.
pub(super) fn selector(owner: &Value) -> Option<String> {
    let selector = owner["spec"]["selector"]
        .as_object()
        .filter(|selector| !selector.is_empty())?;
    let is_map = selector.values().all(Value::is_string);
    let none = serde_json::Map::new();
    let labels = if is_map {
        selector
    } else {
        selector.get("matchLabels").and_then(Value::as_object).unwrap_or(&none)
    };
    let mut parts: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str()?;
        let values = expression["values"].as_array().into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    Some(parts.join(",")).filter(|text| !text.is_empty())
}

/// The Pod that is best to look at: one with a node, running, ready, for the longest time, with the fewest restarts, the oldest.
pub(super) fn most_active(pods: Vec<Pod>) -> Option<Pod> {
    pods.into_iter().max_by_key(|pod| {
        let status = pod.status.as_ref();
        let phase = match status.and_then(|status| status.phase.as_deref()) {
            Some("Running") => 2,
            Some("Pending") => 1,
            _ => 0,
        };
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        let ready = conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready" && condition.status == "True");
        let since = |time: Option<Timestamp>| Reverse(time.unwrap_or(Timestamp::MAX));
        let ready_since = ready
            .and_then(|ready| ready.last_transition_time.as_ref())
            .map(|time| time.0);
        let containers = status
            .and_then(|status| status.container_statuses.as_ref())
            .into_iter()
            .flatten();
        let restarts: i32 = containers
            .map(|container| container.restart_count)
            .max()
            .unwrap_or_default();
        let is_going = pod.metadata.deletion_timestamp.is_some();
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let name = Reverse(pod.metadata.name.clone());
        (
            !is_going,
            has_node,
            phase,
            ready.is_some(),
            since(ready_since),
            Reverse(restarts),
            since(created),
            name,
        )
    })
}

/// How far a Pod is.
#[derive(Debug)]
pub(super) enum Found {
    Running(Box<Pod>),
    /// What is waited for.
    Waiting(String),
}

/// A Pod that runs, or what is waited for.
pub(super) fn state(pod: Option<Pod>) -> Result<Found> {
    let Some(pod) = pod else {
        return Ok(Found::Waiting("there is no Pod".to_owned()));
    };
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending");
    match phase {
        "Succeeded" | "Failed" => {
            bail!("cannot exec into a container in a completed pod; current phase is {phase}")
        }
        "Running" => Ok(Found::Running(Box::new(pod))),
        _ => {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            Ok(Found::Waiting(format!("pod {name} does not run: its phase is {phase}")))
        }
    }
}

/// A container, and what the user should know of the choice.
#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) container: String,
    pub(super) notes: Vec<String>,
}

/// The container that is meant.
pub(super) fn container(pod: &Pod, named: Option<&str>, sidecar: Option<&str>) -> Result<Chosen> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let annotation = |key: &str| pod.metadata.annotations.as_ref()?.get(key);
    let Some(spec) = &pod.spec else {
        bail!("pod {name} has no containers");
    };
    let regular = spec.containers.iter().map(|container| container.name.as_str());
    let initial = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| container.name.as_str());
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|container| container.name.as_str());
    let known: Vec<&str> = regular.chain(initial).chain(ephemeral).collect();
    let known_or = |wanted: &str| {
        if known.contains(&wanted) {
            Ok(wanted.to_owned())
        } else {
            bail!(
                "container {wanted} not found in pod {name}; it has {}",
                known.join(", ")
            )
        }
    };
    if let Some(sidecar) = sidecar {
        let working = annotation(SIDECAR_SET_WORKING_CONTAINER);
        let working = working.and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(text).ok());
        let working = working.and_then(|mut working| working.remove(sidecar));
        // Without an upgrade that swaps containers, a sidecar has its own name.
        let container = known_or(working.as_deref().unwrap_or(sidecar))?;
        let notes = vec![format!("Enter working container {container} of SidecarSet.")];
        return Ok(Chosen { container, notes });
    }
    if let Some(named) = named {
        return Ok(Chosen {
            container: known_or(named)?,
            notes: Vec::new(),
        });
    }
    if let Some(default) = annotation(DEFAULT_CONTAINER).filter(|default| known.contains(&default.as_str())) {
        return Ok(Chosen {
            container: default.clone(),
            notes: Vec::new(),
        });
    }
    let first = spec
        .containers
        .first()
        .with_context(|| format!("pod {name} has no containers"))?;
    let mut notes = Vec::new();
    if spec.containers.len() > 1 {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        notes.push(format!("Defaulting container name to {}.", first.name));
        notes.push(format!(
            "Use 'kubectl describe pod/{name} -n {namespace}' to see all of the containers in this pod."
        ));
    }
    Ok(Chosen {
        container: first.name.clone(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn given_words_then_a_pod_or_what_has_pods_is_meant() {
        let named = |word: &str| {
            let (kind, name) = read(word).unwrap();
            let resource = kind
                .resource()
                .map(|resource| format!("{}/{} ", resource.api_version, resource.plural));
            format!("{}{name}", resource.unwrap_or_default())
        };
        for (word, expected) in [
            ("web-0", "web-0"),
            ("pod/web-0", "web-0"),
            ("clone/web", "apps.kruise.io/v1alpha1/clonesets web"),
            ("asts/web", "apps.kruise.io/v1alpha1/statefulsets web"),
            ("statefulset/web", "apps/v1/statefulsets web"),
            (
                "statefulset.apps.kruise.io/web",
                "apps.kruise.io/v1alpha1/statefulsets web",
            ),
            ("deploy/web", "apps/v1/deployments web"),
            ("svc/web", "v1/services web"),
        ] {
            assert_eq!(named(word), expected);
        }
        assert!(read("sidecarset/log").is_err() && read("pod/").is_err() && read("pod/a/b").is_err());
        let file = "apiVersion: apps.kruise.io/v1beta1\nkind: StatefulSet\nmetadata: {name: web, namespace: shop}";
        let ((kind, name), namespace) = of_file(file).unwrap();
        assert!(matches!(kind, Kind::Ours(_)));
        assert_eq!((name.as_str(), namespace.as_deref()), ("web", Some("shop")));
    }

    #[test]
    fn given_a_selector_then_it_is_written_as_in_a_request() {
        let of = |value: Value| selector(&json!({"spec": {"selector": value}}));
        assert_eq!(of(json!({"app": "web"})).as_deref(), Some("app=web"));
        let expressions =
            json!([{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "DoesNotExist"}]);
        let all = of(json!({"matchLabels": {"app": "web"}, "matchExpressions": expressions}));
        assert_eq!(all.as_deref(), Some("app=web,a in (x,y),!b"));
        assert_eq!((of(json!({})), of(Value::Null)), (None, None));
    }

    #[test]
    fn given_pods_then_the_most_active_is_chosen() {
        let one = |name: &str, phase: &str, ready: &str, since: &str| {
            pod(
                json!({"metadata": {"name": name}, "spec": {"containers": [], "nodeName": "n"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}}),
            )
        };
        let pods = vec![
            one("pending", "Pending", "False", "2026-01-01T00:00:00Z"),
            one("young", "Running", "True", "2026-01-03T00:00:00Z"),
            one("old", "Running", "True", "2026-01-02T00:00:00Z"),
            one("broken", "Running", "False", "2026-01-01T00:00:00Z"),
        ];
        assert_eq!(
            most_active(pods).and_then(|pod| pod.metadata.name).as_deref(),
            Some("old")
        );
        assert!(most_active(Vec::new()).is_none());
    }

    #[test]
    fn given_a_pod_then_it_runs_or_is_waited_for_or_is_over() {
        let in_phase = |phase: &str| {
            state(Some(pod(
                json!({"metadata": {"name": "web"}, "status": {"phase": phase}}),
            )))
        };
        assert!(matches!(in_phase("Running"), Ok(Found::Running(_))));
        assert!(matches!(in_phase("Pending"), Ok(Found::Waiting(_))));
        let over = in_phase("Succeeded").unwrap_err().to_string();
        assert_eq!(
            over,
            "cannot exec into a container in a completed pod; current phase is Succeeded"
        );
        assert!(matches!(state(None), Ok(Found::Waiting(_))));
    }

    #[test]
    fn given_containers_then_the_one_that_is_meant_is_chosen() {
        let with = |annotations: Value| {
            pod(
                json!({"metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
                "spec": {"containers": [{"name": "main"}, {"name": "log-1"}, {"name": "log-2"}, {"name": "cold"}]}}),
            )
        };
        let chosen = |pod: &Pod, named, sidecar| {
            container(pod, named, sidecar).map(|chosen| (chosen.container, chosen.notes.len()))
        };
        let plain = with(json!({}));
        assert_eq!(chosen(&plain, None, None).unwrap(), ("main".to_owned(), 2));
        assert_eq!(chosen(&plain, Some("log-1"), None).unwrap(), ("log-1".to_owned(), 0));
        assert!(
            chosen(&plain, Some("none"), None)
                .unwrap_err()
                .to_string()
                .contains("it has main, log-1")
        );
        let hot = with(
            json!({(SIDECAR_SET_WORKING_CONTAINER): "{\"log\":\"log-2\"}", "kubectl.kubernetes.io/default-container": "cold"}),
        );
        assert_eq!(chosen(&hot, None, None).unwrap(), ("cold".to_owned(), 0));
        assert_eq!(chosen(&hot, None, Some("log")).unwrap(), ("log-2".to_owned(), 1));
        assert_eq!(chosen(&hot, None, Some("cold")).unwrap(), ("cold".to_owned(), 1));
        assert!(
            chosen(&plain, None, Some("log")).is_err(),
            "a sidecar that is not there is not another container"
        );
    }
}
