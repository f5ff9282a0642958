//! Hashes by which the node daemon and the controllers talk about containers: of the image, and of environment that comes from metadata.
//!
//! The daemon reports for each container the hash of the spec it was started with, in an annotation of the Pod. A container is *consistent* when
//! the report is about the container that runs now, and its hash is that of the Pod's spec.
//!
//! Kubelets from 1.31 on hash name and image of a container, older ones all of it. Which one a node has is not asked: either hash is good.

use std::collections::BTreeMap;

use kruise_api::names::annotation::RUNTIME_CONTAINERS;
use kruise_api::pod::{Container, Pod};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fnv::fnv1a_of_printed;
use super::go_json;
use super::inplace::{Reference, is_counted, reference};
use super::revision::types::in_type_order;

/// What the daemon reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeContainers {
    /// By container.
    pub containers: Vec<RuntimeContainer>,
}

/// What the daemon reports of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeContainer {
    /// Its name.
    pub name: String,
    /// The container that runs.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// Restarts so far.
    pub restart_count: i32,
    /// What it was started with.
    pub hashes: Hashes,
}

/// What a container was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hashes {
    /// Hash of its spec, as kubelet makes it.
    pub plain_hash: u64,
    /// Hash of its environment from metadata; absent until the daemon has looked.
    #[serde(skip_serializing_if = "is_zero")]
    pub extracted_env_from_metadata_hash: u64,
}

// The signature is what serde calls.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(hash: &u64) -> bool {
    *hash == 0
}

/// By which hash to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// What it runs.
    Plain,
    /// Environment from metadata.
    Environment,
}

impl RuntimeContainers {
    /// The report on a Pod, if there is one.
    pub fn of(pod: &Pod) -> Result<Option<Self>, serde_json::Error> {
        pod.metadata
            .annotation(RUNTIME_CONTAINERS)
            .map(serde_json::from_str)
            .transpose()
    }

    /// Whether all containers of the Pod are consistent.
    pub fn is_consistent(&self, pod: &Pod, by: Consistency) -> bool {
        let mut containers = pod.spec.template.containers.iter();
        containers.all(|container| self.is_container_consistent(pod, container, by))
    }

    fn is_container_consistent(&self, pod: &Pod, container: &Container, by: Consistency) -> bool {
        let reported = self
            .containers
            .iter()
            .find(|reported| container.name == reported.name.as_str());
        let status = pod
            .status
            .container_statuses
            .iter()
            .find(|status| status.name == container.name);
        let Some((reported, status)) = reported.zip(status) else {
            return false;
        };
        status.container_id.to_string() == reported.container_id
            && match by {
                Consistency::Plain => is_spec_hash(reported.hashes.plain_hash, pod, container),
                Consistency::Environment => {
                    reported.hashes.extracted_env_from_metadata_hash == environment_of(pod, container)
                }
            }
    }
}

/// Whether a hash is that of a container's spec, as a newer or an older kubelet makes it.
fn is_spec_hash(hash: u64, pod: &Pod, container: &Container) -> bool {
    hash == plain(&container.name, &container.image) || whole_of(pod, &container.name) == Some(hash)
}

/// The hash of a container's spec as kubelets before 1.31 make it; none for a Pod that is not updated in place.
fn whole_of(pod: &Pod, name: &str) -> Option<u64> {
    let containers = pod.spec.whole_containers.value();
    let named = |container: &&Value| container.get("name").and_then(Value::as_str) == Some(name);
    containers.as_array()?.iter().find(named).map(whole)
}

/// The hash of a container's spec as kubelets before 1.31 make it: of all its fields. A kubelet that knows fewer of them than we do makes another
/// one where such a field is set.
pub fn whole(container: &Value) -> u64 {
    let json = in_type_order("Container", container);
    fnv1a_of_printed(json.as_bytes()).into()
}

/// The hash of a container's spec as kubelet 1.31 and later make it: of its name and image.
pub fn plain(name: &str, image: &str) -> u64 {
    let json = format!(
        "{{\"image\":{},\"name\":{}}}",
        go_json::quoted(image),
        go_json::quoted(name)
    );
    fnv1a_of_printed(json.as_bytes()).into()
}

/// The hash that a container's environment from metadata should have, by what the Pod says.
pub fn environment_of(pod: &Pod, container: &Container) -> u64 {
    let values = from_metadata(container).map(|(name, reference)| {
        let value = match reference {
            Reference::Label(key) => pod.metadata.label(key),
            Reference::Annotation(key) => pod.metadata.annotation(key),
        };
        (name.to_owned(), value.unwrap_or_default().to_owned())
    });
    environment(values.collect())
}

/// Whether a container has environment from metadata.
pub fn has_environment(container: &Container) -> bool {
    from_metadata(container).next().is_some()
}

/// The hash of a container's environment from metadata, by what the command `env` prints in it.
///
/// A value of several lines is cut to the first, and blanks around a value are lost: so it was written by the original, and is compared by it.
pub fn environment_printed(container: &Container, printed: &str) -> u64 {
    let lines = printed.lines().filter_map(|line| line.trim().split_once('='));
    // The last one counts, should a name come twice.
    let printed: BTreeMap<&str, &str> = lines.collect();
    let values = from_metadata(container).map(|(name, _)| {
        let value = printed.get(name).copied().unwrap_or_default();
        (name.to_owned(), value.to_owned())
    });
    environment(values.collect())
}

/// Variables of a container whose value is a label or annotation of its Pod.
fn from_metadata(container: &Container) -> impl Iterator<Item = (&str, Reference<'_>)> {
    let counted = container
        .env
        .iter()
        .filter(|variable| variable.value.is_empty() && is_counted(&variable.name));
    counted.filter_map(|variable| Some((&*variable.name, reference(&variable.field_path)?)))
}

/// The hash of environment variables, given by name and value.
pub fn environment(mut variables: Vec<(String, String)>) -> u64 {
    variables.sort_by(|one, other| one.0.cmp(&other.0));
    let texts: Vec<String> = variables
        .iter()
        .map(|(name, value)| match value.as_str() {
            "" => format!("{{\"name\":{}}}", go_json::quoted(name)),
            value => format!(
                "{{\"name\":{},\"value\":{}}}",
                go_json::quoted(name),
                go_json::quoted(value)
            ),
        })
        .collect();
    let json = if texts.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", texts.join(","))
    };
    fnv1a_of_printed(json.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// What the original's daemon and kubelet wrote, recorded in a cluster.
    #[derive(Deserialize)]
    struct Recorded {
        containers: Vec<Plain>,
        environments: Vec<Environment>,
    }

    #[derive(Deserialize)]
    struct Plain {
        name: String,
        image: String,
        hash: u64,
    }

    #[derive(Deserialize)]
    struct Environment {
        variables: Vec<(String, String)>,
        hash: u64,
    }

    #[test]
    fn given_recorded_containers_then_their_hashes_are_ours_too() {
        let recorded: Recorded = serde_json::from_str(include_str!("../../fixtures/hashes.json")).unwrap();
        assert!(recorded.containers.len() > 30 && recorded.environments.len() >= 3);
        for Plain { name, image, hash } in recorded.containers {
            assert_eq!(plain(&name, &image), hash, "{name} {image}");
        }
        for Environment { mut variables, hash } in recorded.environments {
            assert_eq!(environment(variables.clone()), hash, "{variables:?}");
            variables.reverse();
            assert_eq!(environment(variables), hash, "the order does not matter");
        }
        for (variables, hash) in [
            (vec![], 86_995_377),
            (vec![("E2", "foo")], 2_804_834_291),
            (vec![("A", ""), ("B", "x")], 144_086_091),
        ] {
            let owned = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(environment(owned), hash, "{variables:?}");
        }
    }

    #[test]
    fn given_a_kubelet_before_1_31_then_all_fields_of_a_container_count_in_the_order_of_the_types() {
        let container = serde_json::json!({
            "imagePullPolicy": "Always", "image": "a:2", "name": "a", "args": ["<x>"], "command": [],
            "env": [{"value": "1", "name": "A"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}],
            "ports": [{"protocol": "TCP", "containerPort": 80}],
            "resources": {"requests": {"memory": "64Mi", "cpu": "100m"}},
            "volumeMounts": [{"readOnly": true, "mountPath": "/var/run/secrets", "name": "kube-api-access-7kx2m"}],
            "terminationMessagePolicy": "File", "terminationMessagePath": "/dev/termination-log",
        });
        let text = concat!(
            r#"{"name":"a","image":"a:2","args":["\u003cx\u003e"],"ports":[{"containerPort":80,"protocol":"TCP"}],"#,
            r#""env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],"#,
            r#""resources":{"requests":{"cpu":"100m","memory":"64Mi"}},"#,
            r#""volumeMounts":[{"name":"kube-api-access-7kx2m","readOnly":true,"mountPath":"/var/run/secrets"}],"#,
            r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"Always"}"#,
        );
        assert_eq!(whole(&container), u64::from(fnv1a_of_printed(text.as_bytes())));
    }

    #[test]
    fn given_what_env_prints_then_its_hash_is_that_of_the_pods_metadata() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"labels": {"v": "foo"}, "annotations": {"w": "a=b", "empty": ""}},
            "spec": {"containers": [
                {"name": "plain", "env": [{"name": "e2", "value": "x"}]},
                {"name": "one", "env": [{"name": "e2", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}}]},
                {"name": "many", "env": [
                    {"name": "W", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['w']"}}},
                    {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['empty']"}}},
                    {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                ]},
            ]},
        }))
        .unwrap();
        let [plain, one, many] = &pod.spec.template.containers[..] else {
            panic!("three containers");
        };
        assert!(!has_environment(plain) && has_environment(one) && has_environment(many));
        assert_eq!(environment_printed(plain, "e2=x"), 86_995_377);
        assert_eq!(
            environment_printed(one, "HOME=/\n e2=foo \r\nnonsense\n"),
            2_053_173_458
        );
        assert_eq!(environment_printed(one, "e2=foo"), environment_of(&pod, one));
        assert_eq!(environment_printed(one, ""), 1_885_397_378);
        assert_eq!(environment_printed(many, "W=a=b\nE=\nIP=1"), environment_of(&pod, many));
        assert_ne!(environment_printed(many, "W=a=c\nE=\nIP=1"), environment_of(&pod, many));
    }

    #[test]
    fn given_a_report_of_the_daemon_then_it_is_written_back_as_it_was() {
        for recorded in [
            r#"{"containers":[{"name":"main","containerID":"containerd://abc","restartCount":0,"hashes":{"plainHash":436018172,"extractedEnvFromMetadataHash":86995377}}]}"#,
            r#"{"containers":[{"name":"main","containerID":"containerd://abc","restartCount":2,"hashes":{"plainHash":436018172}}]}"#,
        ] {
            let read: RuntimeContainers = serde_json::from_str(recorded).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), recorded);
        }
    }
}
