//! Distributions in a model of a cluster with many namespaces.

mod properties;
mod recordings;

use serde_json::Value;

use super::*;
use crate::plan::{Observation as _, Patch, Progress, WriteError};

const NAME: &str = "shared";

/// A cluster with namespaces and, in each, at most one ConfigMap of the name.
#[derive(Clone, Debug)]
struct World {
    distribution: Value,
    namespaces: BTreeMap<String, Value>,
    copies: BTreeMap<String, Value>,
    last: Outcome,
    version: u64,
    writes: usize,
    /// Namespaces in which writes are refused.
    closed: Vec<String>,
}

fn targets(included: &[&str]) -> Value {
    json!({"includedNamespaces": {"list": included.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}})
}

impl World {
    fn new(targets: &Value) -> Self {
        let resource = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "labels": {"x": "1"}, "annotations": {"y": "2"}}, "data": {"k": "v1"},
        });
        let mut world = Self {
            distribution: json!({
                "metadata": {"name": "rd", "uid": "uid-rd", "generation": 1, "resourceVersion": "1"},
                "spec": {"resource": resource, "targets": targets},
            }),
            namespaces: BTreeMap::new(),
            copies: BTreeMap::new(),
            last: Outcome::default(),
            version: 1,
            writes: 0,
            closed: Vec::new(),
        };
        for name in ["a", "b", "c"] {
            world.namespace(name, &json!({}));
        }
        world
    }

    fn namespace(&mut self, name: &str, labels: &Value) {
        let namespace = json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels}});
        self.namespaces.insert(name.to_owned(), namespace);
    }

    fn terminate(&mut self, name: &str) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            namespace["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        }
    }

    fn put(&mut self, namespace: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"].get("uid").is_none() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.copies.insert(namespace.to_owned(), object);
    }

    fn edit(&mut self, namespace: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut copy) = self.copies.remove(namespace) {
            change(&mut copy);
            self.put(namespace, copy);
        }
    }

    fn respec(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.distribution["spec"]);
        let generation = self.distribution["metadata"]["generation"].as_i64().unwrap();
        self.distribution["metadata"]["generation"] = json!(generation + 1);
        self.last = Outcome::default();
    }

    fn observe(&self) -> Observed {
        Observed {
            distribution: Arc::new(serde_json::from_str(&self.distribution.to_string()).unwrap()),
            namespaces: self
                .namespaces
                .values()
                .map(|namespace| Arc::new(serde_json::from_value(namespace.clone()).unwrap()))
                .collect(),
            existing: self
                .copies
                .iter()
                .map(|(namespace, copy)| {
                    let map: ConfigMap = serde_json::from_value(copy.clone()).unwrap();
                    (namespace.clone(), Existing::from(&map))
                })
                .collect(),
            last: self.last.clone(),
        }
    }

    fn plan(&self) -> Plan {
        self.observe().plan(&Env::at("2026-05-01T10:00:00Z".parse().unwrap()))
    }

    /// Applies a plan, at most so many writes of it.
    fn apply(&mut self, plan: &Plan, budget: usize) {
        let mut progress = Progress::of(plan);
        let mut left = budget;
        'process: loop {
            let mut turns = Vec::new();
            while let Some(turn) = progress.next_turn() {
                turns.push(turn);
            }
            if turns.is_empty() {
                break;
            }
            for turn in turns {
                if left == 0 {
                    break 'process;
                }
                left -= 1;
                let answer = self.write(turn.action).map_err(|(class, message)| WriteError {
                    class,
                    message: message.to_owned(),
                    may_have_applied: false,
                });
                progress.answered(turn, answer);
            }
        }
        self.last = if left == 0 {
            Outcome::default()
        } else {
            progress.finish().outcome
        };
    }

    fn write(&mut self, action: &Action) -> Result<(), (FailureClass, &'static str)> {
        self.writes += 1;
        let namespace = action.object().namespace.clone();
        if self.closed.contains(&namespace) {
            return Err((FailureClass::Denied, "the quota says no"));
        }
        let is_open = self
            .namespaces
            .get(&namespace)
            .is_some_and(|known| known["metadata"].get("deletionTimestamp").is_none());
        let found = self.copies.get(&namespace).cloned();
        let check = |wanted: &Preconditions| match &found {
            None => Err((FailureClass::Gone, "not found")),
            Some(found) => {
                let meta = &found["metadata"];
                let is_it = meta["uid"].as_str() == wanted.uid.as_deref()
                    && meta["resourceVersion"].as_str() == wanted.resource_version.as_deref();
                is_it.then_some(()).ok_or((FailureClass::Conflict, "modified"))
            }
        };
        match action {
            Action::Create { body, .. } if is_open => {
                if found.is_some() {
                    return Err((FailureClass::Exists, "already exists"));
                }
                self.put(&namespace, body.json());
                Ok(())
            }
            Action::Create { .. } => Err((FailureClass::Denied, "the namespace is terminating")),
            Action::Replace {
                body, preconditions, ..
            } => {
                check(preconditions)?;
                let live = found.unwrap_or_default();
                let mut new = body.over(&live["metadata"], &Preconditions::NONE);
                new["metadata"]["uid"] = live["metadata"]["uid"].clone();
                self.put(&namespace, new);
                Ok(())
            }
            Action::Delete { preconditions, .. } => {
                check(preconditions)?;
                self.copies.remove(&namespace);
                Ok(())
            }
            Action::Patch {
                patch: Patch::Merge(patch),
                ..
            } => {
                kruise_api::merge_patch::merge(&mut self.distribution, patch);
                Ok(())
            }
            other => panic!("{other:?}"),
        }
    }

    fn round(&mut self) -> Plan {
        let plan = self.plan();
        self.apply(&plan, usize::MAX);
        plan
    }

    /// Goes on until nothing is written, as failures and changes would have it.
    fn settle(&mut self) {
        for _ in 0..6 {
            if self.round().is_idle() {
                return;
            }
            if self.last != Outcome::default() && self.plan().status.is_none() {
                // What is left is tried again and again.
                return;
            }
        }
        panic!("no end: {:#?}", self.plan());
    }

    fn status(&self) -> &Value {
        &self.distribution["status"]
    }

    /// Desired, succeeded and failed, and the conditions that hold with their namespaces.
    fn summary(&self) -> (i64, i64, i64, Vec<(String, Vec<String>)>) {
        let status = self.status();
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        let conditions = status["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 6);
        let bad = conditions.iter().filter(|condition| condition["status"] == "True");
        let bad = bad.map(|condition| {
            let namespaces = serde_json::from_value(condition["failedNamespaces"].clone()).unwrap();
            (condition["type"].as_str().unwrap().to_owned(), namespaces)
        });
        (count("desired"), count("succeeded"), count("failed"), bad.collect())
    }

    fn places(&self) -> Vec<&str> {
        self.copies.keys().map(String::as_str).collect()
    }
}

fn bad(type_: &str, namespaces: &[&str]) -> (String, Vec<String>) {
    (
        type_.to_owned(),
        namespaces.iter().map(|&name| name.to_owned()).collect(),
    )
}

#[test]
fn given_listed_namespaces_then_each_gets_a_copy_that_is_repaired_and_made_again() {
    let mut world = World::new(&targets(&["a", "b"]));
    world.settle();
    assert_eq!(world.summary(), (2, 2, 0, vec![]));
    assert_eq!(world.writes, 3, "two copies and one status");
    let copy = world.copies["a"].clone();
    assert_eq!(
        (&copy["data"], &copy["metadata"]["labels"]),
        (&json!({"k": "v1"}), &json!({"x": "1"}))
    );
    assert_eq!(copy["metadata"]["namespace"], "a");
    assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], "uid-rd");

    world.edit("a", |copy| {
        copy["data"] = json!({"k": "tampered", "extra": "1"});
        copy["metadata"]["labels"]["mine"] = json!("1");
        copy["metadata"]["finalizers"] = json!(["f/f"]);
    });
    world.settle();
    let repaired = &world.copies["a"];
    assert_eq!(repaired["data"], copy["data"]);
    assert_eq!(repaired["metadata"]["labels"], json!({"x": "1", "mine": "1"}));
    assert_eq!(repaired["metadata"]["finalizers"], json!(["f/f"]));
    assert_eq!(repaired["metadata"]["uid"], copy["metadata"]["uid"]);

    world.copies.remove("b");
    world.settle();
    assert_eq!(world.places(), ["a", "b"]);
    let writes = world.writes;
    world.edit("b", |copy| copy["metadata"]["labels"] = json!({"other": "1"}));
    world.settle();
    assert_eq!(world.writes, writes, "metadata alone is left as it is");
}

#[test]
fn given_objects_of_others_then_they_are_left_alone_and_told_of() {
    let mut world = World::new(&targets(&["a", "b"]));
    let foreign = json!({"metadata": {"name": NAME, "namespace": "a"}, "data": {"k": "v1"}});
    world.put("a", foreign.clone());
    world.settle();
    assert_eq!(world.copies["a"]["metadata"].get("ownerReferences"), None);
    assert_eq!(world.summary(), (2, 1, 1, vec![bad("ConflictOccurred", &["a"])]));
    let said = &world.status()["conditions"][4]["reason"];
    assert_eq!(
        *said,
        "conflict with existing resources because of the same namespace, group, version, kind and name"
    );
    assert_eq!(
        world.plan().why,
        [why::Distribution::ForeignObjects {
            object: "ConfigMap shared".to_owned(),
            namespaces: ["a"].into_iter().collect(),
        }
        .into()]
    );
    // Of another distribution of the same name, before the garbage collector has come.
    world.edit("b", |copy| {
        copy["metadata"]["ownerReferences"][0]["uid"] = json!("uid-old");
    });
    world.settle();
    assert_eq!(world.summary(), (2, 0, 2, vec![bad("ConflictOccurred", &["a", "b"])]));
    // A reference of an older release, without a UID.
    world.edit("b", |copy| {
        copy["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "name": "rd", "controller": true}]);
        copy["data"] = json!({});
    });
    world.settle();
    assert_eq!(
        world.copies["b"]["metadata"]["ownerReferences"][0]["uid"], "uid-rd",
        "rewritten with the content"
    );
    world.copies.remove("a");
    world.settle();
    assert_eq!(world.summary(), (2, 2, 0, vec![]));

    // One that the cache does not show yet.
    let plan = {
        world.copies.remove("a");
        world.plan()
    };
    world.put("a", foreign);
    let before = world.copies["a"].clone();
    world.apply(&plan, usize::MAX);
    assert_eq!(world.last.failures[0].class, FailureClass::Exists);
    world.settle();
    assert_eq!(world.copies["a"], before);
    assert_eq!(world.summary(), (2, 1, 1, vec![bad("ConflictOccurred", &["a"])]));
}

#[test]
fn given_namespaces_that_are_missing_or_terminate_then_they_count_and_heal() {
    let mut world = World::new(&targets(&["a", "later"]));
    world.terminate("a");
    world.settle();
    assert_eq!(
        world.summary(),
        (2, 0, 2, vec![bad("NamespaceNotExists", &["a", "later"])])
    );
    assert_eq!(world.writes, 1, "nothing but the status");
    world.namespace("later", &json!({}));
    world.settle();
    assert_eq!(world.summary(), (2, 1, 1, vec![bad("NamespaceNotExists", &["a"])]));
    assert_eq!(world.places(), ["later"]);
}

#[test]
fn given_a_namespace_that_terminates_in_the_middle_then_nothing_is_said_to_have_gone_well() {
    let mut world = World::new(&targets(&["a", "b"]));
    let plan = world.plan();
    world.terminate("a");
    world.apply(&plan, usize::MAX);
    assert!(world.status().is_null(), "{}", world.status());
    assert_eq!(world.last.failures.len(), 1);
    world.settle();
    assert_eq!(world.summary(), (2, 1, 1, vec![bad("NamespaceNotExists", &["a"])]));
}

#[test]
fn given_labels_and_all_namespaces_then_those_that_match_have_a_copy() {
    let mut world = World::new(&json!({
        "namespaceSelector": {"matchLabels": {"team": "a"}}, "excludedNamespaces": {"list": [{"name": "c"}]},
    }));
    world.namespace("b", &json!({"team": "a"}));
    world.namespace("c", &json!({"team": "a"}));
    world.namespace("kube-system", &json!({"team": "a"}));
    world.settle();
    assert_eq!((world.places(), world.summary().0), (vec!["b"], 1));
    world.namespace("a", &json!({"team": "a"}));
    world.namespace("b", &json!({}));
    world.settle();
    assert_eq!((world.places(), world.summary().0), (vec!["a"], 1));
    world.respec(|spec| spec["targets"]["allNamespaces"] = json!(true));
    world.settle();
    assert_eq!((world.places(), world.summary().0), (vec!["a", "b"], 2));
    world.respec(|spec| spec["targets"] = json!({"namespaceSelector": {}}));
    world.settle();
    assert_eq!((world.places(), world.summary()), (vec![], (0, 0, 0, vec![])));
    world.respec(|spec| spec["targets"] = targets(&["kube-system", "kube-public"]));
    world.settle();
    assert_eq!((world.places(), world.summary()), (vec![], (0, 0, 0, vec![])));
}

#[test]
fn given_refusals_then_they_are_told_with_their_namespaces_and_the_others_go_on() {
    let mut world = World::new(&targets(&["a", "b", "c"]));
    world.closed = vec!["b".to_owned()];
    let plan = world.round();
    assert!(world.status().is_null(), "the next plan knows what failed");
    assert_eq!(plan.wake_after, Some(TELL), "and comes soon, whatever it was");
    world.settle();
    assert_eq!(world.places(), ["a", "c"]);
    assert_eq!(world.summary(), (3, 2, 1, vec![bad("CreateResourceFailed", &["b"])]));
    assert_eq!(world.status()["conditions"][1]["reason"], "the quota says no");
    world.closed.clear();
    world.settle();
    assert_eq!(world.summary(), (3, 3, 0, vec![]));

    world.closed = vec!["a".to_owned(), "c".to_owned()];
    world.respec(|spec| {
        spec["resource"]["data"] = json!({"k": "v2"});
        spec["targets"] = targets(&["a", "b"]);
    });
    world.settle();
    assert_eq!(
        world.summary(),
        (
            2,
            1,
            1,
            vec![bad("UpdateResourceFailed", &["a"]), bad("DeleteResourceFailed", &["c"])]
        )
    );
    world.closed.clear();
    world.settle();
    assert_eq!((world.summary(), world.places()), ((2, 2, 0, vec![]), vec!["a", "b"]));
}

#[test]
fn given_a_distribution_that_goes_or_cannot_be_read_then_nothing_is_written() {
    let mut world = World::new(&targets(&["a"]));
    world.respec(|spec| spec["resource"] = json!({"apiVersion": "v1", "kind": "Pod"}));
    let plan = world.round();
    assert!(plan.is_idle() && plan.why.len() == 1, "{plan:?}");
    let mut world = World::new(&targets(&["a"]));
    world.distribution["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
    assert_eq!(world.round().why, [why::General::Deleting.into()]);
    assert_eq!(world.writes, 0);
}

#[test]
fn given_a_change_of_a_namespace_then_it_concerns_those_who_count_it() {
    let namespace = |labels: &Value, leaving: bool| -> Namespace {
        let mut json = json!({"metadata": {"name": "a", "labels": labels}});
        if leaving {
            json["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        }
        serde_json::from_value(json).unwrap()
    };
    let plain = namespace(&json!({}), false);
    let labelled = namespace(&json!({"team": "a"}), false);
    let leaving = namespace(&json!({}), true);
    for (targets, changes) in [
        (targets(&["a"]), [true, false, true]),
        (json!({"allNamespaces": true}), [true, false, true]),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
            [false, true, false],
        ),
        (
            json!({"allNamespaces": true, "excludedNamespaces": {"list": [{"name": "a"}]}}),
            [false, false, false],
        ),
    ] {
        let read = serde_json::from_value(targets.clone()).unwrap();
        let concerned = |old, new| targets::is_concerned(&read, old, new);
        let found = [
            concerned(None, Some(&plain)),
            concerned(Some(&plain), Some(&labelled)),
            concerned(Some(&plain), Some(&leaving)),
        ];
        assert_eq!(found, changes, "{targets}");
        assert_eq!(concerned(Some(&leaving), None), changes[2]);
    }
}
