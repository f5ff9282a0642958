//! What a SidecarSet adds to a container.

use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::label::key_faults;
use crate::sidecarset::expression::{Number, Variable, evaluate};
use crate::sidecarset::inject::container::label_or_annotation;
use crate::sidecarset::inject::{is_hot, is_native, resources};
use kruise_api::names::pattern::hot_upgrade_containers;
use kruise_api::sidecarset::container::{
    PodInjectPolicy, ResourcesPolicy, SharePolicyType, SidecarContainer, SourceContainerName,
};
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::{Value, json};

/// Its two containers have two characters more, and still have to fit.
const LONGEST_HOT_NAME: usize = 61;

pub(super) fn validate(new: &SidecarSet, errors: &mut FieldErrors) {
    for (list, containers, is_init) in [
        ("initContainers", &new.spec.init_containers, true),
        ("containers", &new.spec.containers, false),
    ] {
        for (index, container) in containers.iter().enumerate() {
            let at = Path::new("spec").child(list).index(index);
            if !is_init {
                validate_policies(container, &at, errors);
            }
            if is_hot(container) && (!is_init || is_native(container)) {
                validate_hot_upgrade(container, &at, errors);
            }
            validate_injected_name(new, container, &at, errors);
            validate_transfers(container, is_init, &at, errors);
            if let Some(policy) = &container.policy.resources_policy {
                validate_resources(container, policy, is_init, &at, errors);
            }
        }
    }
}

fn validate_policies(container: &SidecarContainer, at: &Path, errors: &mut FieldErrors) {
    let policy = &container.policy;
    if let PodInjectPolicy::Other(other) = &policy.pod_inject_policy {
        let known = ["BeforeAppContainer", "AfterAppContainer"];
        errors.push(FieldError::not_supported(
            &at.child("podInjectPolicy"),
            other.to_string(),
            &known,
        ));
    }
    if let SharePolicyType::Other(other) = &policy.share_volume_policy.type_ {
        let at = at.child("shareVolumePolicy").child("type");
        errors.push(FieldError::not_supported(
            &at,
            other.to_string(),
            &["enabled", "disabled"],
        ));
    }
}

fn validate_hot_upgrade(container: &SidecarContainer, at: &Path, errors: &mut FieldErrors) {
    if container.policy.upgrade_strategy.hot_upgrade_empty_image.is_empty() {
        let at = at.child("upgradeStrategy").child("hotUpgradeEmptyImage");
        let detail = "the container that does not work needs an image; without one every Pod would be refused";
        errors.push(FieldError::required(&at, detail));
    }
}

/// For a hot upgrade there are two containers in Pods, whose names have to be good ones as well.
fn validate_injected_name(new: &SidecarSet, container: &SidecarContainer, at: &Path, errors: &mut FieldErrors) {
    let native = new.spec.init_containers.iter().filter(|each| is_native(each));
    for twin in native.chain(&new.spec.containers).filter(|each| is_hot(each)) {
        let names = hot_upgrade_containers(twin.name());
        if names.iter().any(|name| name == container.name()) {
            let detail = format!(
                "{} is upgraded hot, and one of its two containers has this name",
                twin.name()
            );
            errors.push(FieldError::invalid(&at.child("name"), container.name(), &detail));
        }
    }
    if is_hot(container) && container.name().len() > LONGEST_HOT_NAME {
        errors.push(FieldError::too_long(&at.child("name"), LONGEST_HOT_NAME));
    }
}

fn validate_transfers(container: &SidecarContainer, is_init: bool, at: &Path, errors: &mut FieldErrors) {
    for (index, transfer) in container.policy.transfer_env.iter().enumerate() {
        let Some(SourceContainerName { field_ref }) = &transfer.source_container_name_from else {
            continue;
        };
        let at = at
            .child("transferEnv")
            .index(index)
            .child("sourceContainerNameFrom")
            .child("fieldRef");
        let Some(reference) = field_ref else {
            errors.push(FieldError::required(&at, "it says where the name of the container is"));
            continue;
        };
        if is_init {
            continue;
        }
        let version = reference.api_version.as_deref().unwrap_or_default();
        if version.is_empty() {
            errors.push(FieldError::required(&at.child("apiVersion"), ""));
        } else if version != "v1" {
            errors.push(FieldError::not_supported(&at.child("apiVersion"), version, &["v1"]));
        }
        let path = &reference.field_path;
        let at = at.child("fieldPath");
        if path.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        match label_or_annotation(path) {
            None => {
                let detail = "only metadata.labels['<key>'] and metadata.annotations['<key>'] can be used";
                errors.push(FieldError::invalid(&at, path.as_str(), detail));
            }
            Some((map, key)) => {
                let key = if map == "annotations" {
                    key.to_lowercase()
                } else {
                    key.to_owned()
                };
                let faults = key_faults(&key);
                errors.extend(
                    faults
                        .iter()
                        .map(|fault| FieldError::invalid(&at, path.as_str(), fault)),
                );
            }
        }
    }
}

fn validate_resources(
    container: &SidecarContainer,
    policy: &ResourcesPolicy,
    is_init: bool,
    at: &Path,
    errors: &mut FieldErrors,
) {
    let at = at.child("resourcesPolicy");
    if is_init && !is_native(container) {
        errors.push(FieldError::forbidden(
            &at,
            "resourcesPolicy is only supported for containers with RestartPolicy Always",
        ));
    }
    let given = container.container.get("resources");
    let is_given = |kind: &str| {
        let amounts = given.and_then(|given| given.get(kind)).and_then(Value::as_object);
        amounts.is_some_and(|amounts| !amounts.is_empty())
    };
    if is_given("limits") || is_given("requests") {
        errors.push(FieldError::forbidden(
            &at,
            "resourcesPolicy and resources cannot be configured together",
        ));
        return;
    }
    if let Err(reason) = resources::read_expression(&policy.target_containers_name_regex) {
        let pattern = policy.target_containers_name_regex.as_str();
        errors.push(FieldError::invalid(
            &at.child("targetContainersNameRegex"),
            pattern,
            &reason,
        ));
    }
    let at = at.child("resourcesExpr");
    let exprs = &policy.resources_expr;
    if exprs.limits.is_none() && exprs.requests.is_none() {
        errors.push(FieldError::invalid(
            &at,
            json!({}),
            "at least one of limits or requests must be configured",
        ));
    }
    for (kind, given) in [("limits", &exprs.limits), ("requests", &exprs.requests)] {
        let Some(given) = given else { continue };
        for (resource, expression) in [("cpu", &given.cpu), ("memory", &given.memory)] {
            if expression.is_empty() {
                continue;
            }
            let variable = Variable {
                name: resource,
                value: Number::Plain(1.0),
            };
            if let Err(error) = evaluate(expression, variable) {
                let at = at.child(kind).child(resource);
                let detail = format!("invalid expression: {error}");
                errors.push(FieldError::invalid(&at, expression.as_str(), &detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_hot_upgrade_then_the_names_of_both_containers_have_to_be_good_ones() {
        let hot = |name: &str| {
            json!({"name": name, "image": "i:1",
                "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}})
        };
        let cold = |name: &str| json!({"name": name, "image": "i:1"});
        for (containers, init_containers, wrong) in [
            (json!([hot("mesh"), cold("log-1")]), json!([hot("log")]), None),
            (
                json!([hot("mesh"), cold("mesh-2")]),
                json!([]),
                Some("spec.containers[1].name"),
            ),
            (
                json!([hot("mesh")]),
                json!([cold("mesh-1")]),
                Some("spec.initContainers[0].name"),
            ),
            (json!([hot(&"a".repeat(61)), cold(&"b".repeat(63))]), json!([]), None),
            (
                json!([hot(&"a".repeat(62))]),
                json!([]),
                Some("spec.containers[0].name"),
            ),
        ] {
            let set = json!({"spec": {"containers": containers, "initContainers": init_containers}});
            let mut errors = FieldErrors::default();
            validate(&serde_json::from_value(set).unwrap(), &mut errors);
            let found = errors.into_result().err().map(|refusal| refusal.message);
            match wrong {
                None => assert_eq!(found, None, "{containers}"),
                Some(field) => assert!(found.unwrap().contains(field), "{containers}"),
            }
        }
    }
}
