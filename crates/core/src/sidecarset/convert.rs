//! v1alpha1 and v1beta1 of SidecarSet.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `spec.namespace: x` | `spec.namespaceSelector` on the well-known name label; wins over a selector given beside it |
//! | label "custom version" | `spec.customVersion`; the label is removed, and comes back on the way down |
//!
//! `spec.namespace` is not restored: the selector means the same and both versions have it.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child, drop_empty, metadata, set_metadata};
use kruise_api::names::label;
use serde_json::{Value, json};

pub const RULES: Rules = Rules {
    only_v1alpha1: &["spec.namespace"],
    only_v1beta1: &["spec.customVersion"],
    up,
    down,
    ..Rules::SAME
};

pub fn up(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let version = metadata(object, "labels", label::SIDECAR_SET_CUSTOM_VERSION).map(str::to_owned);
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    if let Some(namespace) = spec
        .get("namespace")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    {
        let selector = json!({"matchLabels": {label::NAMESPACE_NAME: namespace}});
        spec.insert("namespaceSelector".into(), selector);
    }
    if let Some(version) = version.filter(|version| !version.is_empty()) {
        spec.insert("customVersion".into(), Value::String(version));
        if let Some(labels) = child(object, "metadata").and_then(|metadata| child(metadata, "labels")) {
            labels.remove(label::SIDECAR_SET_CUSTOM_VERSION);
        }
        drop_empty(object, "metadata.labels");
    }
    Ok(())
}

pub fn down(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let version = child(object, "spec").and_then(|spec| spec.remove("customVersion"));
    if let Some(Value::String(version)) = version
        && !version.is_empty()
    {
        set_metadata(object, "labels", label::SIDECAR_SET_CUSTOM_VERSION, version);
    }
    Ok(())
}
