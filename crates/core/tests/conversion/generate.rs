//! Objects made from the field lists of both versions: any subset of the fields, values of the right type or not.
//!
//! A generator reads its decisions from a list of bytes and takes "leave it out" when they run out, so a failing object
//! shrinks with the list.

use super::fixture::read_text;
use kruise_api::names::{annotation, group, label};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1alpha1,
    V1beta1,
}

pub(crate) const VERSIONS: [Version; 2] = [Version::V1alpha1, Version::V1beta1];

/// A field: its type, the version it is limited to, and what is inside (`[]` and `{}` are the items of lists and maps).
#[derive(Debug, Default)]
pub(crate) struct Field {
    kind: String,
    only: Option<Version>,
    inside: BTreeMap<String, Field>,
}

/// The fields of every kind, by its lower-case name.
pub(crate) fn fields() -> BTreeMap<String, Field> {
    let mut kinds = BTreeMap::new();
    let mut root: &mut Field = &mut Field::default();
    for line in read_text("fields.txt").lines() {
        if let Some(kind) = line.strip_prefix("# ") {
            root = kinds.entry(kind.to_owned()).or_insert_with(Field::default);
            "object".clone_into(&mut root.kind);
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let mut field = &mut *root;
        for step in steps(words[0]) {
            field = field.inside.entry(step.to_owned()).or_default();
        }
        words[1].clone_into(&mut field.kind);
        field.only = match words.get(2) {
            Some(&"v1alpha1") => Some(Version::V1alpha1),
            Some(&"v1beta1") => Some(Version::V1beta1),
            _ => None,
        };
    }
    kinds
}

/// The paths in `object` that its kind does not have in `version`.
pub(crate) fn outside(object: &Value, version: Version, field: &Field) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["spec", "status"] {
        if let Some(value) = object.get(name) {
            walk(value, name, &field.inside[name], version, &mut found);
        }
    }
    found
}

fn walk(value: &Value, path: &str, field: &Field, version: Version, found: &mut Vec<String>) {
    if field.only.is_some_and(|only| only != version) {
        found.push(path.to_owned());
        return;
    }
    match (value, field.inside.get("[]"), field.inside.get("{}")) {
        (Value::Array(items), Some(item), _) => {
            for value in items {
                walk(value, &format!("{path}[]"), item, version, found);
            }
        }
        (Value::Object(map), _, Some(item)) => {
            map.values()
                .for_each(|value| walk(value, &format!("{path}{{}}"), item, version, found));
        }
        (Value::Object(object), ..) if field.kind == "object" => {
            for (name, value) in object {
                let path = format!("{path}.{name}");
                match field.inside.get(name) {
                    Some(field) => walk(value, &path, field, version, found),
                    None => found.push(path),
                }
            }
        }
        _ => {}
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').flat_map(|step| {
        let at = step.find(['[', '{']).unwrap_or(step.len());
        let (name, hops) = step.split_at(at);
        std::iter::once(name).chain(match hops.len() {
            0 => vec![],
            2 => vec![hops],
            _ => vec![&hops[..2], &hops[2..]],
        })
    })
}

/// How far a generated object may be from a valid one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fields of the version, values of the right type.
    Valid,
    /// Also unknown fields, wherever both versions have the object they stand in.
    Future,
    /// Also fields of the other version, nulls and wrong types.
    Wild,
}

pub(crate) struct Generator<'a> {
    bytes: &'a [u8],
    version: Version,
    mode: Mode,
    unknown: u64,
}

/// Unknown fields are numbered, so that each can be found again.
pub(crate) const UNKNOWN: &str = "future";

impl<'a> Generator<'a> {
    pub(crate) fn object(bytes: &'a [u8], kind: &str, field: &Field, version: Version, mode: Mode) -> Value {
        let mut generator = Self {
            bytes,
            version,
            mode,
            unknown: 0,
        };
        let mut object = generator.value(kind, "", field, true);
        if !object.is_object() {
            object = json!({});
        }
        let known = kruise_core::conversion::KINDS
            .iter()
            .find(|known| known.kind.to_lowercase() == kind);
        let known = known.expect("a kind of the registry");
        object["apiVersion"] = match version {
            Version::V1alpha1 => format!("{}/{}", known.group, group::V1ALPHA1),
            Version::V1beta1 => format!("{}/{}", known.group, group::V1BETA1),
        }
        .into();
        object["kind"] = known.kind.into();
        object["metadata"] = generator.metadata(kind);
        object
    }

    fn next(&mut self) -> usize {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        usize::from(*byte)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.next() % from.len()].clone()
    }

    /// `shared`: both versions have this object, so what neither of them knows must survive in it.
    fn value(&mut self, kind: &str, name: &str, field: &Field, shared: bool) -> Value {
        if self.mode == Mode::Wild && self.next() % 24 == 1 {
            let wrong = [
                "null",
                "\"text\"",
                "42",
                "-1.5",
                "true",
                "[]",
                "{}",
                "[{}]",
                "{\"a\":{}}",
                "\"\"",
                "[null]",
            ];
            return serde_json::from_str(self.pick(&wrong)).expect("JSON");
        }
        let shared = shared && field.only.is_none();
        match field.kind.as_str() {
            "object" => {
                let mut object = Map::new();
                for (name, inside) in &field.inside {
                    let of_other = inside.only.is_some_and(|only| only != self.version);
                    let wanted = if of_other {
                        self.mode == Mode::Wild && self.next() % 8 == 1
                    } else {
                        !self.next().is_multiple_of(3)
                    };
                    if wanted {
                        object.insert(name.clone(), self.value(kind, name, inside, shared));
                    }
                }
                if shared {
                    self.unknown_into(&mut object);
                }
                Value::Object(object)
            }
            "map" => {
                let mut map = Map::new();
                for key in ["a", "b", "c"] {
                    if !self.next().is_multiple_of(3) {
                        map.insert(key.to_owned(), self.value(kind, name, &field.inside["{}"], shared));
                    }
                }
                Value::Object(map)
            }
            "array" => {
                let mut items = Vec::new();
                while items.len() < 3 && !self.next().is_multiple_of(3) {
                    items.push(self.value(kind, name, &field.inside["[]"], shared));
                }
                Value::Array(items)
            }
            "string" => self.pick(words(name)).into(),
            "integer" => self.pick(&[json!(0), json!(1), json!(7), json!(-1), json!(i32::MAX)]),
            "boolean" => (self.next() % 2 == 1).into(),
            "int-or-string" => self.pick(&[json!(0), json!(3), json!("50%"), json!("4"), json!("")]),
            "any" => self.anything(3, shared && !(kind == "sidecarset" && name == "namespaceSelector")),
            other => panic!("type {other} of {name}"),
        }
    }

    /// What stands below a schemaless node.
    fn anything(&mut self, depth: usize, shared: bool) -> Value {
        let mut object = Map::new();
        for name in ["containers", "metadata", "labels", "partition", "replicas"] {
            match self.next() % 8 {
                1 if depth > 0 => object.insert(name.to_owned(), self.anything(depth - 1, shared)),
                2 if depth > 0 => object.insert(name.to_owned(), json!([self.anything(depth - 1, shared)])),
                3 => object.insert(
                    name.to_owned(),
                    self.pick(&[json!(null), json!({}), json!([]), json!(0.5), json!("")]),
                ),
                _ => None,
            };
        }
        if shared {
            self.unknown_into(&mut object);
        }
        Value::Object(object)
    }

    fn unknown_into(&mut self, object: &mut Map<String, Value>) {
        if self.mode != Mode::Valid && self.next() % 5 == 1 {
            self.unknown += 1;
            object.insert(format!("{UNKNOWN}{}", self.unknown), json!({"n": self.unknown}));
        }
    }

    fn metadata(&mut self, kind: &str) -> Value {
        let mut metadata = json!({"name": "x", "uid": "u", "resourceVersion": "4", "generation": 2});
        if self.next() % 2 == 1 {
            metadata["namespace"] = "ns".into();
        }
        for (map, names, values) in of_metadata(kind) {
            let mut entries = Map::new();
            for name in ["app", "example.com/x"].iter().chain(names) {
                if !self.next().is_multiple_of(3) {
                    entries.insert((*name).to_owned(), self.pick(values).into());
                }
            }
            if !entries.is_empty() || self.next() % 8 == 1 {
                metadata[map] = Value::Object(entries);
            }
        }
        if self.mode == Mode::Wild && self.next() % 16 == 1 {
            metadata["annotations"] = self.pick(&[json!(null), json!("text"), json!([]), json!({"a": 1})]);
        }
        metadata
    }
}

type Entries = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Labels and annotations that mean something to a kind, and values worth trying.
fn of_metadata(kind: &str) -> [Entries; 2] {
    const BOOLEANS: &[&str] = &["", "true", "false", "True"];
    const NUMBERS: &[&str] = &["", "0", "5", "20%", "-3", "abc", "99999999999", "1"];
    match kind {
        "cloneset" => [
            ("labels", &[label::SCALING_EXCLUDE_PREPARING_DELETE], BOOLEANS),
            (
                "annotations",
                &[
                    annotation::PRE_DOWNLOAD_PARALLELISM,
                    annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS,
                    annotation::PRE_DOWNLOAD_MIN_UPDATED_READY,
                ],
                NUMBERS,
            ),
        ],
        "sidecarset" => [
            ("labels", &[label::SIDECAR_SET_CUSTOM_VERSION], &["", "v1", "v2"]),
            ("annotations", &[], &[""]),
        ],
        "daemonset" => [
            ("labels", &[], &[""]),
            ("annotations", &[annotation::DAEMON_SET_PROGRESSIVE_CREATE], BOOLEANS),
        ],
        "podunavailablebudget" => [
            ("labels", &[], &[""]),
            (
                "annotations",
                &[annotation::BUDGET_PROTECT_OPERATIONS, annotation::BUDGET_TOTAL_REPLICAS],
                &["", "DELETE", "DELETE,EVICT", " DELETE ,,NOPE", "NOPE", "7", "0", "ten"],
            ),
        ],
        "containerrecreaterequest" => [
            ("labels", &[], &[""]),
            (
                "annotations",
                &[annotation::CRR_CONTAINER_STATUSES, annotation::CRR_UNREADY_ACQUIRED],
                &[
                    "",
                    "2024-01-02T03:04:05Z",
                    "2024-01-02T05:04:05.5+02:00",
                    "yesterday",
                    "[]",
                    "null",
                    "[{\"name\":\"a\",\"ready\":true,\"restartCount\":2}]",
                    "[{\"name\":\"a\",\"more\":{}}]",
                    "[{\"name\":1}]",
                ],
            ),
        ],
        _ => [("labels", &[], &["", "v"]), ("annotations", &[], &["", "v"])],
    }
}

/// Values worth trying for a string field.
fn words(name: &str) -> &'static [&'static str] {
    match name {
        "type" => &[
            "",
            "ReCreate",
            "InPlaceIfPossible",
            "InPlaceOnly",
            "OnDelete",
            "RollingUpdate",
            "Other",
            "PreRecreateGrace",
        ],
        "podUpdatePolicy" => &["", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "Other"],
        "rollingUpdateType" => &["Standard", "Surging", "InPlaceIfPossible"],
        "status" => &["True", "False", ""],
        "lastTransitionTime" => &["2024-01-02T03:04:05Z", "2024-01-02T05:04:05+02:00", "nonsense"],
        "protectOperations" => &["DELETE", "EVICT", "UPDATE"],
        _ => &["", "a", "b", "v1"],
    }
}
