//! What an update through v1alpha1 erases: fields that this version has no place for. Whoever writes that way is warned of each that says something.
//!
//! The original erases them without a word. A field that says what its absence means is no loss.

use kruise_api::gates::{Gate, Gates};
use kruise_api::kind::Kind as _;
use kruise_api::statefulset::v1beta1::StatefulSet;
use serde_json::{Value, json};

use super::convert::RULES;
use super::default::default;
use crate::admission::{Env, Lookups, ObjectRef, Operation, Version};
use crate::shared::workload::WorkloadRef;

/// The set as v1beta1 has it, where an update may erase something of it.
pub(super) fn stored(name: Option<&str>, env: &Env) -> Option<ObjectRef> {
    let erases = env.version == Version::V1alpha1 && env.operation == Operation::Update;
    let of = |name| WorkloadRef::new(StatefulSet::API_VERSION, StatefulSet::KIND, name);
    name.filter(|_| erases).map(|name| ObjectRef::Workload(of(name)))
}

/// Warns of what an update erases. What cannot be looked up is not warned of.
pub(super) fn warnings(name: Option<&str>, env: &Env, found: &Lookups) -> Vec<String> {
    let stored = stored(name, env).and_then(|stored| found.object(&stored).ok().flatten());
    let stored = stored.map(erased).unwrap_or_default();
    let warn = |path| format!("{path}: erased by this update, because v1alpha1 has no place for it; use v1beta1");
    stored.into_iter().map(warn).collect()
}

/// The fields of a set that say something and are not in v1alpha1.
fn erased(stored: &Value) -> Vec<&'static str> {
    let silent = silent();
    let says_something = |path: &&&str| {
        let at = format!("/{}", path.replace('.', "/"));
        match stored.pointer(&at) {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) if list.is_empty() => false,
            Some(Value::Object(fields)) if fields.is_empty() => false,
            value => value != silent.pointer(&at),
        }
    };
    let of_spec = RULES.only_v1beta1.iter().filter(|path| path.starts_with("spec."));
    of_spec.filter(says_something).copied().collect()
}

/// A set in which these fields say what their absence means.
fn silent() -> Value {
    let gates = [Gate::StatefulSetAutoDeletePVC, Gate::StatefulSetAutoResizePVCGate];
    let gates = gates
        .iter()
        .fold(Gates::default(), |gates, gate| gates.with(*gate, true));
    let mut set = json!({"spec": {"ordinals": {}}});
    if let Value::Object(set) = &mut set {
        default(set, None, Version::V1beta1, gates);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Admit as _;
    use crate::statefulset::Submitted;

    fn warned(version: Version, operation: Operation, stored: Option<&Value>) -> Vec<String> {
        let env = Env {
            operation,
            version,
            gates: Gates::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        let set = Submitted::read(set.to_string().as_bytes(), version).unwrap();
        let needed = set.needs_to_validate(None, &env, &Lookups::default()).objects;
        let found = Lookups {
            objects: needed.into_iter().map(|needed| (needed, Ok(stored.cloned()))).collect(),
            ..Lookups::default()
        };
        set.warnings(&env, &found)
    }

    #[test]
    fn given_an_update_through_v1alpha1_then_what_it_erases_is_told() {
        let stored = json!({"spec": {
            "replicas": 1, "reserveOrdinals": [1], "scaleStrategy": {"maxUnavailable": 2}, "ordinals": {"start": 3},
            "lifecycle": {"preDelete": {"finalizersHandler": ["a.b/c"]}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
        }});
        let paths: Vec<String> = warned(Version::V1alpha1, Operation::Update, Some(&stored))
            .into_iter()
            .map(|warning| warning.split_once(": erased by this update").unwrap().0.to_owned())
            .collect();
        let expected = [
            "spec.lifecycle",
            "spec.ordinals",
            "spec.persistentVolumeClaimRetentionPolicy",
            "spec.reserveOrdinals",
            "spec.scaleStrategy",
            "spec.volumeClaimUpdateStrategy",
        ];
        assert_eq!(paths, expected);
        for (version, operation) in [
            (Version::V1beta1, Operation::Update),
            (Version::V1alpha1, Operation::Create),
        ] {
            assert!(warned(version, operation, Some(&stored)).is_empty());
        }
    }

    #[test]
    fn given_fields_that_say_nothing_then_there_is_no_warning() {
        let stored = json!({"spec": {
            "reserveOrdinals": [], "scaleStrategy": {}, "ordinals": {"start": 0}, "lifecycle": null,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimUpdateStrategy": {"type": "OnDelete"},
        }});
        for stored in [Some(&stored), Some(&json!({})), None] {
            assert!(warned(Version::V1alpha1, Operation::Update, stored).is_empty());
        }
    }
}
