//! Resources of a sidecar as a function of those of other containers.
//!
//! - Targets are the containers that run as long as the Pod, that no set declares, and whose name the regular expression fits. Without any the Pod is refused.
//! - Of the limits the sum or the largest is taken; one target without a limit makes it unlimited, and the sidecar gets none. A missing request is 0.
//! - An empty expression writes nothing. Whatever the container declared itself is gone.

use crate::shared::quantity::{self, Amount};
use crate::sidecarset::expression::{Number, Variable, evaluate};
use kruise_api::sidecarset::container::{ResourceExprs, ResourcesPolicy, TargetContainersMode};
use regex::Regex;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// How large a regular expression may become; what is larger is a mistake.
const LARGEST: usize = 1 << 20;
/// Expressions that are remembered. To read one takes longer than all else that is done for a Pod.
const REMEMBERED: usize = 64;

thread_local! {
    static READ: RefCell<HashMap<String, Rc<Regex>>> = RefCell::default();
}

/// Reads a regular expression.
///
/// # Errors
/// With what is wrong, in words.
pub fn read_expression(text: &str) -> Result<Regex, String> {
    let mut builder = regex::RegexBuilder::new(text);
    builder.size_limit(LARGEST).build().map_err(|error| error.to_string())
}

/// As [`read_expression`], but only once for each.
fn expression(text: &str) -> Result<Rc<Regex>, String> {
    if let Some(known) = READ.with_borrow(|read| read.get(text).cloned()) {
        return Ok(known);
    }
    let new = Rc::new(read_expression(text)?);
    READ.with_borrow_mut(|read| {
        if read.len() >= REMEMBERED {
            read.clear();
        }
        read.insert(text.to_owned(), new.clone());
    });
    Ok(new)
}

/// Returns the resources of a container with this policy.
///
/// # Errors
/// With the reason why the Pod has to be refused.
pub fn reckon<'a>(policy: &ResourcesPolicy, targets: impl Iterator<Item = &'a Value>) -> Result<Value, String> {
    let expression = match &*policy.target_containers_name_regex {
        "" | ".*" => None,
        text => Some(expression(text)?),
    };
    let fits = |target: &&Value| match &expression {
        Some(expression) => expression.is_match(super::name_of(target)),
        None => true,
    };
    let targets: Vec<&Value> = targets.filter(fits).collect();
    if targets.is_empty() {
        let pattern = &policy.target_containers_name_regex;
        return Err(format!(
            "resourcesPolicy finds no container whose name fits {pattern:?}"
        ));
    }
    let mut resources = Map::new();
    for (kind, expressions, is_limit) in [
        ("limits", &policy.resources_expr.limits, true),
        ("requests", &policy.resources_expr.requests, false),
    ] {
        let Some(ResourceExprs { cpu, memory }) = expressions else {
            continue;
        };
        let mut amounts = Map::new();
        for (resource, expression) in [("cpu", cpu), ("memory", memory)] {
            if expression.is_empty() {
                continue;
            }
            let Some(total) = total(&targets, kind, resource, &policy.target_containers_mode, is_limit)? else {
                continue;
            };
            let variable = Variable {
                name: resource,
                value: Number::Quantity(total),
            };
            let amount = evaluate(expression, variable)
                .map_err(|error| format!("resourcesPolicy: {kind} of {resource}, {expression:?}: {error}"))?;
            let text = amount.text().ok_or("an amount is too large")?;
            amounts.insert(resource.to_owned(), Value::String(text));
        }
        if !amounts.is_empty() {
            resources.insert(kind.to_owned(), Value::Object(amounts));
        }
    }
    Ok(Value::Object(resources))
}

/// What the targets have together; nothing when it is unlimited.
fn total(
    targets: &[&Value],
    kind: &str,
    resource: &str,
    mode: &TargetContainersMode,
    is_limit: bool,
) -> Result<Option<Amount>, String> {
    let mut total: Option<Amount> = None;
    for target in targets {
        let given = target
            .get("resources")
            .and_then(|all| all.get(kind))
            .and_then(|all| all.get(resource));
        let amount = match given.filter(|given| !given.is_null()) {
            Some(given) => {
                let text = quantity::text_of_value(given).ok_or_else(|| format!("{given} is no quantity"))?;
                Amount::read(&text).ok_or_else(|| format!("{given} is no quantity"))?
            }
            None if is_limit => return Ok(None),
            None => Amount::of_thousandths(0),
        };
        total = Some(match total {
            None => amount,
            Some(before) if *mode == TargetContainersMode::Max => {
                if amount.nanos() > before.nanos() {
                    amount
                } else {
                    before
                }
            }
            Some(before) => before.plus(amount).ok_or("the sum is too large")?,
        });
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reckoned(policy: &Value, targets: &[Value]) -> Result<Value, String> {
        let policy: ResourcesPolicy = serde_json::from_value(policy.clone()).unwrap();
        reckon(&policy, targets.iter())
    }

    #[test]
    fn given_targets_then_limits_and_requests_follow_them() {
        let two = [
            json!({"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}}}),
            json!({"name": "b", "resources": {"limits": {"cpu": "300m", "memory": "3Gi"}}}),
        ];
        let policy = |mode: &str, cpu: &str, memory: &str| {
            json!({"targetContainersMode": mode, "targetContainersNameRegex": ".*",
                "resourcesExpr": {"limits": {"cpu": cpu, "memory": memory}, "requests": {"cpu": "cpu*50%"}}})
        };
        assert_eq!(
            reckoned(&policy("sum", "max(cpu*25%, 150m)", "memory/4 + 256Mi"), &two).unwrap(),
            json!({"limits": {"cpu": "200m", "memory": "1280Mi"}, "requests": {"cpu": "50m"}})
        );
        assert_eq!(
            reckoned(&policy("max", "cpu", "MEMORY"), &two).unwrap(),
            json!({"limits": {"cpu": "500m", "memory": "3Gi"}, "requests": {"cpu": "50m"}})
        );
        // One without a limit makes all unlimited; a request that is missing is 0.
        let unlimited = [two[0].clone(), json!({"name": "c"})];
        assert_eq!(
            reckoned(&policy("sum", "cpu*50%", ""), &unlimited).unwrap(),
            json!({"requests": {"cpu": "50m"}})
        );
        assert_eq!(
            reckoned(&policy("sum", "cpu*50%", ""), &unlimited[1..]).unwrap(),
            json!({"requests": {"cpu": "0"}})
        );
    }

    #[test]
    fn given_many_expressions_one_after_another_then_each_is_still_itself() {
        for round in 0..2 {
            for number in 0..=REMEMBERED {
                let name = format!("c{number}");
                let known = expression(&format!("^{name}$")).unwrap();
                assert!(known.is_match(&name) && !known.is_match("c"), "{round}: {name}");
                assert!(READ.with_borrow(HashMap::len) <= REMEMBERED);
            }
        }
        assert!(Rc::ptr_eq(&expression("^one$").unwrap(), &expression("^one$").unwrap()));
    }

    #[test]
    fn given_no_target_or_no_value_then_there_is_a_reason() {
        let one = [json!({"name": "main", "resources": {"limits": {"cpu": "1"}}})];
        let policy = |regex: &str, cpu: &str| {
            json!({"targetContainersMode": "sum", "targetContainersNameRegex": regex,
                "resourcesExpr": {"limits": {"cpu": cpu}}})
        };
        assert!(reckoned(&policy("^web", "cpu"), &one).unwrap_err().contains("^web"));
        assert!(reckoned(&policy("ai", "cpu"), &one).is_ok());
        assert!(reckoned(&policy("(", "cpu"), &one).is_err());
        assert!(reckoned(&policy(".*", "cpu*cpu"), &one).is_err());
        assert!(reckoned(&policy(".*", "cpu-2"), &one).is_err());
        let odd = [json!({"name": "main", "resources": {"limits": {"cpu": "x"}}})];
        assert!(reckoned(&policy(".*", "cpu"), &odd).is_err());
    }
}
