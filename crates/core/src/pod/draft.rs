//! A Pod on its way through the steps.

use super::PodError;
use crate::json_patch::{self, Operation, diff};
use kruise_api::meta::group_of;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

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
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
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
        let owners = self.metadata.as_ref()?.owner_references.as_ref()?;
        let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some(group_of(&controller.api_version))
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

    /// False when the Pod certainly has no such name in it. A quick look, for steps that most Pods have no use for.
    pub fn may_mention(&self, name: &str) -> bool {
        self.whole.is_some() || self.text.contains(name)
    }

    /// Makes a change that needs no look at the rest of the Pod.
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
            Some(whole) => diff(&whole.before, &whole.now),
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
