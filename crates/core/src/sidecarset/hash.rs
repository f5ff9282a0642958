//! The two hashes of a SidecarSet, by which its Pods are compared with it.
//!
//! - Counted are the containers, and all init containers as soon as one of them is a native sidecar. Nothing else is: a change of volumes, secrets,
//!   selectors or strategies makes no Pod outdated.
//! - The second hash leaves out images: as long as it stays the same, Pods can be updated in place.
//! - The bytes are those of the original, field by field in the order of its types. Another byte would make every Pod that is there impossible to update.

use crate::shared::revision::types::in_type_order;
use kruise_api::names::annotation;
use kruise_api::sidecarset::container::SidecarContainer;
use kruise_api::sidecarset::v1beta1::{SidecarSet, SidecarSetSpec};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The hashes of a SidecarSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    pub hash: String,
    /// As `hash`, with all images left out.
    pub without_image: String,
}

impl Hashes {
    /// Returns the hashes of a set, as admission wrote them.
    pub fn of_set(set: &SidecarSet) -> Self {
        let annotations = set.metadata.annotations.as_ref();
        Self::stored_or_made(&set.spec, |key| annotations?.get(key).map(String::as_str))
    }

    /// Returns the hashes that were stored with a spec. What is missing is made.
    pub fn stored_or_made<'a>(spec: &SidecarSetSpec, stored: impl Fn(&str) -> Option<&'a str>) -> Self {
        let stored = |key: &str| stored(key).filter(|hash| !hash.is_empty()).map(str::to_owned);
        let both = stored(annotation::SIDECAR_SET_HASH).zip(stored(annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE));
        both.map_or_else(
            || Self::of(&values(&spec.containers), &values(&spec.init_containers)),
            |(hash, without_image)| Self { hash, without_image },
        )
    }

    /// Returns the hashes of a set with these containers, completed by defaults.
    pub fn of(containers: &[Value], init_containers: &[Value]) -> Self {
        Self {
            hash: hash(&document(containers, init_containers)),
            without_image: hash(&document(&imageless(containers), &imageless(init_containers))),
        }
    }
}

/// Containers as JSON.
pub fn values(containers: &[SidecarContainer]) -> Vec<Value> {
    let value = |container: &SidecarContainer| serde_json::to_value(container).unwrap_or_default();
    containers.iter().map(value).collect()
}

/// Whether an init container runs beside the others until the Pod ends.
pub fn is_native_sidecar(init_container: &Value) -> bool {
    init_container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

fn imageless(containers: &[Value]) -> Vec<Value> {
    let mut containers = containers.to_vec();
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        container.remove("image");
    }
    containers
}

fn document(containers: &[Value], init_containers: &[Value]) -> String {
    let list = |containers: &[Value]| {
        if containers.is_empty() {
            return "null".to_owned();
        }
        let texts: Vec<String> = containers
            .iter()
            .map(|container| in_type_order("SidecarContainer", container))
            .collect();
        format!("[{}]", texts.join(","))
    };
    if init_containers.iter().any(is_native_sidecar) {
        format!(
            r#"{{"containers":{},"initContainers":{}}}"#,
            list(containers),
            list(init_containers)
        )
    } else {
        format!(r#"{{"containers":{}}}"#, list(containers))
    }
}

/// SHA-256 in signs that make no words. The first and the last digit share one, as in the original.
fn hash(document: &str) -> String {
    let signs = |nibble: u8| match nibble {
        0 | 15 => '4',
        1 => '5',
        2 => '6',
        3 => '7',
        4 => '8',
        5 => '9',
        6 => 'b',
        7 => 'c',
        8 => 'd',
        9 => 'f',
        10 => 'v',
        11 => 'w',
        12 => 'x',
        13 => 'z',
        _ => '2',
    };
    let digest = Sha256::digest(document.as_bytes());
    digest
        .iter()
        .flat_map(|byte| [signs(byte >> 4), signs(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[test]
    fn given_documents_with_known_hashes_then_these_are_made() {
        for (document, expected) in [
            (
                r#"{"containers":null}"#,
                "x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48",
            ),
            (
                r#"{"containers":[{"name":"a","image":"b:1","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#,
                "wcb2v7ffb8zvd487d2w84vvbc8c9ww4x9b45wdx2fbb7v47xd5zxw6xddd7xbz9w",
            ),
            (
                r#"{"containers":[{"name":"log","image":"busybox:1.36","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#,
                "bzv6592862b6w846cw4xx5w9647xz74dxc6d24fw7b6bcx554fxd2z4z4vbd8ff4",
            ),
            (
                r#"{"containers":[{"name":"log","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#,
                "4424wfff8b57d47vb7684zc4bb5478vxwwdcz7dd2xdwbf4d4446424d4w29cwd5",
            ),
        ] {
            assert_eq!(hash(document), expected, "{document}");
        }
    }

    #[test]
    fn given_signs_that_go_escapes_and_a_native_sidecar_then_the_bytes_are_those_of_the_original() {
        let container = json!({"name": "a", "image": "b:1", "command": ["sh", "-c", "x && y > z"],
            "resources": {"limits": {"memory": "1024Mi", "cpu": "0.5"}}, "fieldOfTomorrow": 1});
        let native = json!({"restartPolicy": "Always", "name": "i", "image": "b:1"});
        let hashes = Hashes::of(std::slice::from_ref(&container), &[native]);
        let expected = "cw7z65czzvwfb74xwff4b2b42658c9cxv4fb72bzd4dfb5xd6x9dd767dvwb7zzz";
        assert_eq!(hashes.hash, expected);
        let plain = json!({"name": "i", "image": "b:1"});
        assert_eq!(
            Hashes::of(std::slice::from_ref(&container), &[plain]),
            Hashes::of(&[container], &[])
        );
    }

    #[test]
    fn given_what_the_original_stored_then_the_hashes_are_the_same() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Case {
            name: String,
            containers: Option<Vec<Value>>,
            init_containers: Option<Vec<Value>>,
            hash: String,
            without_image: String,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../fixtures/sidecarset/hashes.json")).unwrap();
        assert_eq!(cases.len(), 4);
        for case in cases {
            let found = Hashes::of(
                &case.containers.unwrap_or_default(),
                &case.init_containers.unwrap_or_default(),
            );
            assert_eq!(
                (found.hash, found.without_image),
                (case.hash, case.without_image),
                "{}",
                case.name
            );
        }
    }
}
