//! What happens to a UnitedDeployment on its way in, compared with what the original did.

mod defaults;
mod verdicts;

use kruise_api::gates::{Gate, Gates};
use kruise_core::uniteddeployment::default::default;
use serde_json::Value;

/// Gates as they were when the original was recorded.
fn gates() -> Gates {
    Gates::default()
        .with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true)
        .with(Gate::ResourcesDeletionProtection, true)
}

/// A UnitedDeployment, completed.
fn defaulted(value: &Value, old: Option<&Value>, gates: Gates) -> Value {
    let mut completed = value.as_object().unwrap().clone();
    let old = old.map(|old| old.as_object().unwrap().clone());
    default(&mut completed, old.as_ref(), gates);
    Value::Object(completed)
}
