//! How Pods follow a change. Only what rolls out is looked at.

use super::validate_selector;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::update_order;
use kruise_api::shared::IntOrPercent;
use kruise_api::sidecarset::{UpdateStrategy, UpdateStrategyType};

pub(super) fn validate(strategy: &UpdateStrategy, errors: &mut FieldErrors) {
    if strategy.type_ != UpdateStrategyType::RollingUpdate {
        return;
    }
    let at = Path::new("spec").child("updateStrategy");
    if let Some(selector) = &strategy.selector {
        errors.extend(validate_selector(selector, &at.child("selector")));
        let keeps_back = !matches!(&strategy.partition, None | Some(IntOrPercent::Int(0)));
        if keeps_back {
            errors.push(FieldError::forbidden(
                &at.child("partition"),
                "Partition and Selector cannot be used together",
            ));
        }
    }
    for (name, value) in [
        ("partition", &strategy.partition),
        ("maxUnavailable", &strategy.max_unavailable),
    ] {
        let at = at.child(name);
        match value {
            Some(IntOrPercent::Int(number)) if *number < 0 => {
                errors.push(FieldError::invalid(&at, *number, "must be greater than or equal to 0"));
            }
            Some(IntOrPercent::Text(text)) if !is_percentage(text) => {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' \
                    (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                errors.push(FieldError::invalid(&at, text.to_string(), detail));
            }
            _ => {}
        }
    }
    if let Some(priority) = &strategy.priority_strategy {
        errors.extend(update_order::validate_priority(priority, &at.child("priorityStrategy")));
    }
    errors.extend(update_order::validate_scatter(
        &strategy.scatter_strategy,
        &at.child("scatterStrategy"),
    ));
}

fn is_percentage(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
