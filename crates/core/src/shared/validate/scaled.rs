//! Counts that may be percentages, as fields of a user's object.

use crate::field_error::{FieldError, Path};
use kruise_api::shared::IntOrPercent;
use serde_json::Value;

/// The count for `total`, percentages rounded up. What cannot be read is told at `path` and counts as nothing.
pub fn round_up(
    value: Option<&IntOrPercent>,
    total: i32,
    name: &str,
    path: &Path,
    errors: &mut Vec<FieldError>,
) -> i32 {
    let wrong = |value: Value, reason: &str| {
        let detail = format!("failed GetScaledValueFromIntOrPercent for {name}: {reason}");
        FieldError::invalid(path, value, &detail)
    };
    let Some(value) = value else {
        errors.push(wrong("<nil>".into(), "nil value for IntOrString"));
        return 0;
    };
    value.ceil_of(total).unwrap_or_else(|not| {
        let reason = if not.text.ends_with('%') {
            format!("invalid value {:?}: {}", not.text, not.reason)
        } else {
            "invalid type: string is not a percentage".to_owned()
        };
        errors.push(wrong(shown(Some(value)), &reason));
        0
    })
}

/// The value as an error shows it.
pub fn shown(value: Option<&IntOrPercent>) -> Value {
    match value {
        None => "null".into(),
        Some(IntOrPercent::Int(count)) => (*count).into(),
        Some(IntOrPercent::Text(text)) => text.to_string().into(),
    }
}
