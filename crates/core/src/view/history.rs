//! What changed from one revision of a workload to the next.
//!
//! - Shown with their values: images, pull policies, resources, ports, labels, and where Pods run. Everything else is named when it changed, without its value: environment, commands,
//!   arguments, probes, annotations, volumes and what this release does not know.
//! - Lists whose items have names are compared by name, so that a container that moved has not changed.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::revision::ControllerRevision;
use serde::Serialize;
use serde_json::{Map, Value};

/// Changes that are told of one revision; the rest is counted.
const MOST: usize = 100;
/// Fields of a container that are shown.
const OF_CONTAINER: [&str; 5] = ["image", "imagePullPolicy", "ports", "resources", "restartPolicy"];
/// Fields of a Pod that are shown.
const OF_POD: [&str; 9] = [
    "dnsPolicy",
    "hostNetwork",
    "nodeSelector",
    "priorityClassName",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
];
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// A revision of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionView {
    /// Its name.
    pub name: String,
    /// Its number; the highest is the newest.
    pub number: i64,
    /// When it was made, in seconds since 1970.
    pub created: Option<i64>,
    /// Whether the workload asks for it.
    pub is_update: bool,
    /// Whether it is what the last finished rollout reached.
    pub is_current: bool,
    /// What changed since the one before; nothing for the first.
    pub changes: Vec<Change>,
    /// How many more changes there are.
    pub more: usize,
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where.
    pub path: String,
    /// Its value before; nothing when it was not there or is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its value after; nothing when it is gone or is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `added`, `removed` or `changed`.
    pub what: &'static str,
    /// Whether its values are kept back.
    pub hidden: bool,
}

/// Returns the history of a workload, the newest first.
pub fn history<'a>(
    revisions: impl IntoIterator<Item = &'a ControllerRevision>,
    update: &str,
    current: &str,
) -> Vec<RevisionView> {
    let mut revisions: Vec<_> = revisions.into_iter().collect();
    revisions.sort_by(|a, b| (a.revision, a.name()).cmp(&(b.revision, b.name())));
    let mut before: Option<Facts> = None;
    let mut views = Vec::new();
    for revision in revisions {
        let facts = facts(&revision.data.value());
        let mut changes = before.as_ref().map_or_else(Vec::new, |before| compare(before, &facts));
        let more = changes.len().saturating_sub(MOST);
        changes.truncate(MOST);
        // Some workloads know their revision by the hash at the end of its name.
        let is = |known: &str| {
            let rest = revision.name().strip_suffix(known);
            !known.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
        };
        views.push(RevisionView {
            name: revision.name().to_owned(),
            number: revision.revision,
            created: revision
                .metadata
                .creation_timestamp
                .map(|time| time.timestamp().as_second()),
            is_update: is(update),
            is_current: is(current),
            changes,
            more,
        });
        before = Some(facts);
    }
    views.reverse();
    views
}

/// What a template says, by path.
type Facts = BTreeMap<String, Fact>;

#[derive(Clone, Debug, PartialEq)]
enum Fact {
    Shown(String),
    Hidden(Value),
}

impl Fact {
    fn shown(&self) -> Option<String> {
        match self {
            Self::Shown(text) => Some(text.clone()),
            Self::Hidden(_) => None,
        }
    }
}

fn compare(before: &Facts, after: &Facts) -> Vec<Change> {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |path: &String| {
        let (from, to) = (before.get(path), after.get(path));
        if from == to {
            return None;
        }
        Some(Change {
            path: path.clone(),
            from: from.and_then(Fact::shown),
            to: to.and_then(Fact::shown),
            what: match (from, to) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            },
            hidden: [from, to]
                .into_iter()
                .flatten()
                .any(|fact| matches!(fact, Fact::Hidden(_))),
        })
    };
    paths.into_iter().filter_map(change).collect()
}

/// The facts of a revision: of its Pod template, or of the containers that it injects.
fn facts(data: &Value) -> Facts {
    let mut facts = Facts::new();
    let spec = &data["spec"];
    let template = &spec["template"];
    if template.is_object() {
        let metadata = &template["metadata"];
        for (key, value) in fields(&metadata["labels"]) {
            facts.insert(format!("labels[{key}]"), Fact::Shown(plain(value)));
        }
        for (key, value) in fields(&metadata["annotations"]) {
            facts.insert(format!("annotations[{key}]"), Fact::Hidden(value.clone()));
        }
        pod(&template["spec"], &mut facts);
        let claims = &spec["volumeClaimTemplates"];
        if !claims.is_null() {
            facts.insert("volumeClaimTemplates".to_owned(), Fact::Hidden(claims.clone()));
        }
    } else {
        pod(spec, &mut facts);
    }
    facts
}

fn pod(spec: &Value, facts: &mut Facts) {
    for (field, value) in fields(spec) {
        if CONTAINERS.contains(&field.as_str()) {
            for (name, item) in named(value) {
                container(&format!("{field}[{name}]"), item, facts);
            }
        } else if field == "volumes" {
            for (name, item) in named(value) {
                facts.insert(format!("volumes[{name}]"), Fact::Hidden(item.clone()));
            }
        } else {
            put(field.clone(), value, OF_POD.contains(&field.as_str()), facts);
        }
    }
}

fn container(path: &str, container: &Value, facts: &mut Facts) {
    for (field, value) in fields(container) {
        match field.as_str() {
            "name" => {}
            "env" => {
                for (name, variable) in named(value) {
                    facts.insert(format!("{path}.env[{name}]"), Fact::Hidden(variable.clone()));
                }
            }
            shown => put(format!("{path}.{field}"), value, OF_CONTAINER.contains(&shown), facts),
        }
    }
}

fn put(path: String, value: &Value, is_shown: bool, facts: &mut Facts) {
    // What is empty has not been said.
    let is_empty = match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_empty {
        return;
    }
    let fact = if is_shown {
        Fact::Shown(plain(value))
    } else {
        Fact::Hidden(value.clone())
    };
    facts.insert(path, fact);
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The items of a list by their names, or by their places when they have none.
fn named(list: &Value) -> impl Iterator<Item = (String, &Value)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.map(|(place, item)| {
        let name = item["name"].as_str().map(str::to_owned);
        (name.unwrap_or_else(|| place.to_string()), item)
    })
}

/// A text as it is, everything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
