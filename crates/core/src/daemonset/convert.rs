//! v1alpha1 and v1beta1 of the Advanced DaemonSet.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `rollingUpdateType: Surging` | `Standard`; there is no way back |
//! | annotation "progressive create pod" is `"true"` | `spec.scaleStrategy.partitionedScaling: true`; the annotation stays |
//! | `status.daemonSetHash` | `status.updateRevision` |
//!
//! Setting `partitionedScaling` to false does not touch the annotation, so a later v1alpha1 write brings it back.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child, child_or_new, drop_empty, each, metadata, set_metadata};
use kruise_api::names::annotation;
use serde_json::Value;

pub const RULES: Rules = Rules {
    renamed: &[("status.daemonSetHash", "updateRevision")],
    only_v1beta1: &["spec.scaleStrategy.partitionedScaling"],
    up,
    down,
    ..Rules::SAME
};

pub fn up(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    each(
        object,
        "spec.updateStrategy.rollingUpdate.rollingUpdateType",
        &mut |rolling, name| {
            if rolling.get(name).and_then(Value::as_str) == Some("Surging") {
                rolling.insert(name.to_owned(), "Standard".into());
            }
        },
    );
    let progressive = metadata(object, "annotations", annotation::DAEMON_SET_PROGRESSIVE_CREATE) == Some("true");
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    if progressive {
        if let Some(scale) = child_or_new(spec, "scaleStrategy") {
            scale.insert("partitionedScaling".into(), Value::Bool(true));
        }
    } else {
        drop_empty(spec, "scaleStrategy");
    }
    Ok(())
}

pub fn down(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let Some(spec) = child(object, "spec") else {
        return Ok(());
    };
    let partitioned = child(spec, "scaleStrategy").and_then(|scale| scale.remove("partitionedScaling"));
    drop_empty(spec, "scaleStrategy");
    if partitioned == Some(Value::Bool(true)) {
        set_metadata(
            object,
            "annotations",
            annotation::DAEMON_SET_PROGRESSIVE_CREATE,
            "true".into(),
        );
    }
    Ok(())
}
