//! The table of defaults: where, and what.

use super::image::may_change_under_its_name;
use crate::shared::tree::{Object, each};
use serde_json::{Map, Value};

/// What to write where there is nothing.
#[derive(Clone, Copy)]
enum Preset {
    /// A text; an empty one counts as nothing.
    Text(&'static str),
    /// A number; zero counts as nothing.
    Number(i64),
    /// A text; an empty one has a meaning of its own.
    TextOrEmpty(&'static str),
    /// A number; zero has a meaning of its own.
    NumberOrZero(i64),
    /// An empty object.
    Object,
    /// `Always` for an image that may change under its name, `IfNotPresent` for others.
    PullPolicyByImage,
}

use self::Preset::{Number, NumberOrZero, Object as EmptyObject, PullPolicyByImage, Text, TextOrEmpty};

const FILE_MODE: Preset = NumberOrZero(0o644);

/// Below `spec`.
const POD: &[(&str, Preset)] = &[
    ("restartPolicy", Text("Always")),
    ("dnsPolicy", Text("ClusterFirst")),
    ("schedulerName", Text("default-scheduler")),
    ("securityContext", EmptyObject),
    ("terminationGracePeriodSeconds", NumberOrZero(30)),
    ("containers[].imagePullPolicy", Text("Always")),
    ("initContainers[].imagePullPolicy", PullPolicyByImage),
    ("volumes[].hostPath.type", TextOrEmpty("")),
    ("volumes[].secret.defaultMode", FILE_MODE),
    ("volumes[].configMap.defaultMode", FILE_MODE),
    ("volumes[].downwardAPI.defaultMode", FILE_MODE),
    ("volumes[].downwardAPI.items[].fieldRef.apiVersion", Text("v1")),
    ("volumes[].projected.defaultMode", FILE_MODE),
    (
        "volumes[].projected.sources[].serviceAccountToken.expirationSeconds",
        NumberOrZero(3600),
    ),
    (
        "volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion",
        Text("v1"),
    ),
];

/// Below each container and init container.
const CONTAINER: &[(&str, Preset)] = &[
    ("terminationMessagePath", Text("/dev/termination-log")),
    ("terminationMessagePolicy", Text("File")),
    ("ports[].protocol", Text("TCP")),
    ("env[].valueFrom.fieldRef.apiVersion", Text("v1")),
];

/// Below each probe.
const PROBE: &[(&str, Preset)] = &[
    ("timeoutSeconds", Number(1)),
    ("periodSeconds", Number(10)),
    ("successThreshold", Number(1)),
    ("failureThreshold", Number(3)),
];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Below each HTTP request of a probe or hook.
const HTTP: &[(&str, Preset)] = &[("path", Text("/")), ("scheme", Text("HTTP"))];
const HOOKS: [&str; 2] = ["lifecycle.postStart", "lifecycle.preStop"];

/// Writes every default of the table. Says whether there was anything to write.
pub(super) fn fill_all(template: &mut Object) -> bool {
    let mut changed = false;
    let mut fill_below = |parent: &str, rows: &[(&str, Preset)]| {
        for (path, default) in rows {
            each(template, &format!("{parent}.{path}"), &mut |object, name| {
                changed |= fill(object, name, *default);
            });
        }
    };
    fill_below("spec", POD);
    for list in ["spec.containers[]", "spec.initContainers[]"] {
        fill_below(list, CONTAINER);
        for probe in PROBES {
            fill_below(&format!("{list}.{probe}"), PROBE);
        }
        for handler in PROBES.iter().chain(&HOOKS) {
            fill_below(&format!("{list}.{handler}.httpGet"), HTTP);
        }
    }
    changed
}

fn fill(object: &mut Object, name: &str, default: Preset) -> bool {
    let there = object.get(name);
    let missing = match default {
        Text(_) | Number(_) | PullPolicyByImage => is_blank(there),
        TextOrEmpty(_) | NumberOrZero(_) | EmptyObject => there.is_none_or(Value::is_null),
    };
    if missing {
        let value = match default {
            Text(text) | TextOrEmpty(text) => text.into(),
            Number(number) | NumberOrZero(number) => number.into(),
            EmptyObject => Value::Object(Map::new()),
            PullPolicyByImage => {
                let image = object.get("image").and_then(Value::as_str).unwrap_or_default();
                let always = may_change_under_its_name(image);
                (if always { "Always" } else { "IfNotPresent" }).into()
            }
        };
        object.insert(name.to_owned(), value);
    }
    missing
}

/// Whether a field is missing, `null`, an empty text or zero.
pub(super) fn is_blank(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    }
}
