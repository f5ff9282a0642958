//! A Pod on its way through the steps.

use super::PodError;
use crate::json_patch::{self, Operation, diff};
use crate::shared::workload::WorkloadRef;
use kruise_api::meta::group_of;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A Pod that is being changed.
///
/// A step that needs only what [`Draft::head`] shows and makes a change that is known beforehand uses [`Draft::change`]: the
/// Pod is then never read as a whole. A step that needs more uses [`Draft::whole`], which shows all changes made so far.
#[derive(Debug)]
pub struct Draft<'a> {
    text: &'a str,
    head: Head<'a>,
    changes: Vec<Operation>,
    whole: Option<Whole>,
}

#[derive(Debug)]
struct Whole {
    before: Value,
    now: Value,
}

/// The few fields that decide whether there is anything to do.
#[derive(Debug, Default, Deserialize)]
pub struct Head<'a> {
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow, default)]
    spec: Option<Spec<'a>>,
    #[serde(borrow, default)]
    status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow, default)]
    phase: Option<Cow<'a, str>>,
}

/// Labels in the order in which they came.
#[derive(Debug, Default)]
struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_unit<E>(self) -> Result<Labels<'de>, E> {
                Ok(Labels::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels<'de>, A::Error> {
                let mut labels = Vec::with_capacity(8);
                while let Some((Borrowed(key), Borrowed(value))) = map.next_entry()? {
                    labels.push((key, value));
                }
                Ok(Labels(labels))
            }
        }

        from.deserialize_any(Pairs)
    }
}

/// A text that is not copied where it can be left where it is.
#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, default)]
    readiness_gates: Option<Vec<ReadinessGate<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadinessGate<'a> {
    #[serde(borrow, default)]
    condition_type: Cow<'a, str>,
}

impl Head<'_> {
    /// The API group of the controller that made the Pod.
    pub fn controller_group(&self) -> Option<&str> {
        self.controlling().map(|owner| group_of(&owner.api_version))
    }

    /// The controller that made the Pod.
    pub fn controller(&self) -> Option<WorkloadRef> {
        let owner = self.controlling()?;
        Some(WorkloadRef::new(&owner.api_version, &owner.kind, &owner.name))
    }

    fn controlling(&self) -> Option<&Owner<'_>> {
        let owners = self.metadata.as_ref()?.owner_references.as_ref()?;
        owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// The name of the Pod, if it has one of its own.
    pub fn name(&self) -> Option<&str> {
        let name = self.metadata.as_ref()?.name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// The namespace that the Pod itself names.
    pub fn namespace(&self) -> Option<&str> {
        let namespace = self.metadata.as_ref()?.namespace.as_deref();
        namespace.filter(|name| !name.is_empty())
    }

    /// Whether the Pod has ended, or is on its way out.
    pub fn is_over(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        let deleted = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.deletion_timestamp.as_ref());
        matches!(phase, Some("Succeeded" | "Failed")) || deleted.is_some()
    }

    /// Condition types of the readiness gates. `None` when there is no spec that could have some.
    pub fn readiness_gates(&self) -> Option<Vec<&str>> {
        let gates = self.spec.as_ref()?.readiness_gates.iter().flatten();
        Some(gates.map(|gate| gate.condition_type.as_ref()).collect())
    }
}

impl<'a> Draft<'a> {
    /// Reads what most steps look at.
    pub fn read(text: &'a str) -> Result<Self, PodError> {
        // A list would be read as the fields of an object in their order.
        if !text.trim_start().starts_with('{') {
            return Err(PodError::NotAnObject);
        }
        Ok(Self {
            text,
            head: serde_json::from_str(text)?,
            changes: Vec::new(),
            whole: None,
        })
    }

    /// The Pod as it came, as far as most steps look at it.
    pub fn head(&self) -> &Head<'a> {
        &self.head
    }

    /// The labels as they are now, by key; what is said twice counts once.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        if let Some(whole) = &self.whole {
            let labels = whole.now.get("metadata").and_then(|metadata| metadata.get("labels"));
            let labels = labels.and_then(Value::as_object).into_iter().flatten();
            return labels
                .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
                .collect();
        }
        let labels = self.head.metadata.iter().flat_map(|metadata| &metadata.labels.0);
        labels.map(|(key, value)| (&**key, &**value)).collect()
    }

    /// False when the Pod certainly has no such name in it. A quick look, for steps that most Pods have no use for.
    pub fn may_mention(&self, name: &str) -> bool {
        self.whole.is_some() || self.text.contains(name)
    }

    /// Makes a change that needs no look at the rest of the Pod. Labels are changed in [`Draft::whole`] only, where the steps behind see them.
    pub fn change(&mut self, change: Operation) {
        if let Some(whole) = &mut self.whole {
            json_patch::apply(&mut whole.now, &change);
        } else {
            self.changes.push(change);
        }
    }

    /// The whole Pod as it is now, to be read and changed freely.
    pub fn whole(&mut self) -> Result<&mut Value, PodError> {
        let whole = if let Some(whole) = self.whole.take() {
            whole
        } else {
            let before: Value = serde_json::from_str(self.text)?;
            let mut now = before.clone();
            for change in self.changes.drain(..) {
                json_patch::apply(&mut now, &change);
            }
            Whole { before, now }
        };
        Ok(&mut self.whole.insert(whole).now)
    }

    /// All that was changed.
    pub fn finish(self) -> Vec<Operation> {
        match self.whole {
            Some(whole) => diff(&whole.before, whole.now),
            None => self.changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn add(path: &str, value: Value) -> Operation {
        Operation::Add {
            path: path.into(),
            value,
        }
    }

    #[test]
    fn given_small_changes_only_then_they_are_the_patch() {
        let mut draft = Draft::read(r#"{"spec":{}}"#).unwrap();
        draft.change(add("/spec/a", json!(1)));
        assert_eq!(draft.finish(), [add("/spec/a", json!(1))]);
    }

    #[test]
    fn given_the_whole_pod_is_read_between_small_changes_then_it_shows_those_before_and_none_is_lost() {
        let mut draft = Draft::read(r#"{"spec":{"z":0}}"#).unwrap();
        draft.change(add("/spec/a", json!(1)));
        assert_eq!(draft.whole().unwrap(), &json!({"spec": {"a": 1, "z": 0}}));
        draft.change(add("/spec/b", json!(2)));
        let whole = draft.whole().unwrap();
        assert_eq!(whole, &json!({"spec": {"a": 1, "b": 2, "z": 0}}));
        whole["spec"]["c"] = json!(3);
        let expected = [("/spec/a", 1), ("/spec/b", 2), ("/spec/c", 3)];
        assert_eq!(draft.finish(), expected.map(|(path, value)| add(path, json!(value))));
    }

    #[test]
    fn given_the_whole_pod_is_only_read_then_nothing_changes() {
        let mut draft = Draft::read(r#"{"spec":{"z":0}}"#).unwrap();
        assert_eq!(draft.whole().unwrap()["spec"]["z"], 0);
        assert_eq!(draft.finish(), []);
    }
}
