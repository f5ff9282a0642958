//! What happens to a StatefulSet on its way in, compared with what the original did.

mod defaults;
mod verdicts;

use kruise_api::gates::{Gate, Gates};
use kruise_core::admission::Version;
use kruise_core::statefulset::default::default;
use serde_json::Value;

/// Gates as they were when the original was recorded.
fn gates() -> Gates {
    Gates::default()
        .with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true)
        .with(Gate::ResourcesDeletionProtection, true)
        .with(Gate::StatefulSetAutoResizePVCGate, true)
}

/// A StatefulSet, completed.
fn defaulted(value: &Value, old: Option<&Value>, version: Version, gates: Gates) -> Value {
    let mut completed = value.as_object().unwrap().clone();
    default(
        &mut completed,
        old.map(|old| old.as_object().unwrap().clone()).as_ref(),
        version,
        gates,
    );
    Value::Object(completed)
}
