//! What a SidecarSet has to be.
//!
//! - Its name fits into a label. Its selector says something and is well formed; so do the selectors of namespaces and of the update.
//! - There is a container. An init container that lives as long as the Pod needs the strategy `NotUpdate`.
//! - Containers and volumes together make a Pod that Kubernetes takes; the API server judges that ([`template`]). The rest of a container is in [`containers`], how
//!   Pods are updated in [`strategy`], annotations in [`metadata`].
//! - A revision for new Pods is named, and exists.
//! - A canary has another set as its base, which is no canary itself. It keeps that base, and is not rolled out. A set that is there does not become one.
//! - A container cannot be added or renamed, and how it is upgraded cannot be changed; a new set can.
//! - Sets that can apply to the same Pod do not contradict each other ([`conflicts`]). That is looked at when nothing else is wrong.

mod conflicts;
mod containers;
mod metadata;
mod strategy;

pub use conflicts::{conflicts, overlap};

use super::inject::is_native;
use super::select::{self, NamedRevision};
use crate::admission::{Lookups, Needs, ObjectRef};
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::selector;
use crate::shared::tree::Object;
use crate::shared::validate::selector as well_formed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::gates::Gates;
use kruise_api::meta::Object as _;
use kruise_api::names::annotation;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_api::sidecarset::{InjectionRevisionPolicy, UpdateStrategyType};
use serde_json::{Value, json};

/// Characters that fit into a label.
const LONGEST_NAME: usize = 63;

/// Everything that is wrong with a set; `old` is what it was before an update.
pub fn validate(new: &SidecarSet, old: Option<&SidecarSet>, gates: Gates, found: &Lookups) -> FieldErrors {
    let mut errors = FieldErrors::default();
    validate_name(new.name(), &mut errors);
    let spec = Path::new("spec");
    let at = spec.child("selector");
    match &new.spec.selector {
        None => errors.push(FieldError::required(&at, "no selector defined for SidecarSet")),
        Some(given) => errors.extend(validate_selector(given, &at)),
    }
    if let Some(given) = &new.spec.namespace_selector {
        errors.extend(validate_selector(given, &spec.child("namespaceSelector")));
    }
    if new.spec.containers.is_empty() && new.spec.init_containers.is_empty() {
        errors.push(FieldError::required(
            &spec,
            "no initContainer or container defined for SidecarSet",
        ));
    }
    let is_rolling = new.spec.update_strategy.type_ == UpdateStrategyType::RollingUpdate;
    if is_rolling && new.spec.init_containers.iter().any(is_native) {
        let detail = "init containers with restartPolicy Always cannot be updated in place: type has to be NotUpdate";
        errors.push(FieldError::invalid(
            &spec.child("updateStrategy").child("type"),
            new.spec.update_strategy.type_.as_str(),
            detail,
        ));
    }
    containers::validate(new, &mut errors);
    errors.extend(found.template.iter().cloned());
    strategy::validate(&new.spec.update_strategy, &mut errors);
    validate_revision(new, found, &mut errors);
    metadata::validate(new, gates, found, &mut errors);
    validate_canary(new, old, found, &mut errors);
    if let Some(old) = old {
        validate_change(new, old, &mut errors);
    }
    if errors.is_empty() {
        match other_sets(new, found) {
            Ok(others) => errors.extend(conflicts(new, &others)),
            Err(reason) => errors.push(FieldError::internal(&Path::new("spec"), &reason)),
        }
    }
    errors
}

fn validate_name(name: &str, errors: &mut FieldErrors) {
    let at = Path::new("metadata").child("name");
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let detail = "sidecarset name must consist of alphanumeric characters or '-' (e.g. 'example-com', \
            regex used for validation is '^[a-zA-Z0-9\\-]+$')";
        errors.push(FieldError::invalid(&at, name, detail));
    }
    if name.len() > LONGEST_NAME {
        let detail = format!("must be no more than {LONGEST_NAME} characters");
        errors.push(FieldError::invalid(&at, name, &detail));
    }
}

fn validate_selector(given: &LabelSelector, at: &Path) -> Vec<FieldError> {
    let shown = || serde_json::to_value(given).unwrap_or_else(|_| json!({}));
    let mut errors = well_formed::validate(given, at);
    if errors.is_empty() {
        if let Some(fault) = well_formed::fault(given) {
            errors.push(FieldError::invalid(at, shown(), &fault));
        } else if selector::is_empty(given) {
            errors.push(FieldError::invalid(
                at,
                shown(),
                "empty selector is not valid for sidecarset.",
            ));
        }
    }
    errors
}

fn validate_revision(new: &SidecarSet, found: &Lookups, errors: &mut FieldErrors) {
    let Some(revision) = &new.spec.injection_strategy.revision else {
        return;
    };
    let at = Path::new("spec").child("injectionStrategy").child("revision");
    if let InjectionRevisionPolicy::Other(other) = &revision.policy {
        errors.push(FieldError::not_supported(
            &at.child("policy"),
            other.to_string(),
            &["Always", "Partial"],
        ));
    }
    let Some(named) = select::named_revision(new) else {
        errors.push(FieldError::required(
            &at,
            "revisionName and customVersion cannot be empty simultaneously",
        ));
        return;
    };
    let (field, value, object) = match named {
        NamedRevision::Name(name) => ("revisionName", name, revision_ref(new, named)),
        NamedRevision::CustomVersion(version) => ("customVersion", version, revision_ref(new, named)),
    };
    let at = at.child(field);
    let exists = found.object(&object).map(|found| match (named, found) {
        (_, None) => false,
        (NamedRevision::Name(_), Some(_)) => true,
        (NamedRevision::CustomVersion(version), Some(list)) => {
            let key = kruise_api::names::label::SIDECAR_SET_CUSTOM_VERSION;
            items(list).any(|each| {
                let label = each
                    .get("metadata")
                    .and_then(|metadata| metadata.get("labels")?.get(key)?.as_str());
                label == Some(version)
            })
        }
    });
    match exists {
        Ok(true) => {}
        Ok(false) => errors.push(FieldError::not_found(&at, value)),
        Err(reason) => errors.push(FieldError::internal(&at, reason)),
    }
}

fn revision_ref(set: &SidecarSet, named: NamedRevision<'_>) -> ObjectRef {
    match named {
        NamedRevision::Name(name) => ObjectRef::Revision(name.to_owned()),
        NamedRevision::CustomVersion(_) => ObjectRef::RevisionsOfSidecarSet(set.name().to_owned()),
    }
}

fn validate_canary(new: &SidecarSet, old: Option<&SidecarSet>, found: &Lookups, errors: &mut FieldErrors) {
    let Some(base) = select::canary_of(new) else {
        return;
    };
    let at = Path::new("metadata")
        .child("annotations")
        .key(annotation::SIDECAR_SET_BASE);
    if new.spec.update_strategy.type_ != UpdateStrategyType::NotUpdate {
        let at = Path::new("spec").child("updateStrategy").child("type");
        let given = new.spec.update_strategy.type_.as_str();
        errors.push(FieldError::invalid(
            &at,
            given,
            "a canary has to have the type NotUpdate",
        ));
    }
    if old.is_some_and(|old| named_base(old) != Some(base)) {
        let detail = format!("annotations[{}] is immutable", annotation::SIDECAR_SET_BASE);
        errors.push(FieldError::invalid(&at, base, &detail));
    }
    if base == new.name() {
        errors.push(FieldError::invalid(&at, base, "base sidecarSet cannot be itself"));
        return;
    }
    match all_sets(found) {
        Ok(sets) => match sets.iter().find(|set| set.name() == base) {
            None => errors.push(FieldError::not_found(&at, base)),
            Some(base_set) if select::canary_of(base_set).is_some() => {
                errors.push(FieldError::invalid(&at, base, "base sidecarSet cannot be canary"));
            }
            Some(_) => {}
        },
        Err(reason) => errors.push(FieldError::internal(&at, &reason)),
    }
}

/// The base that a set names, whether or not it is a canary.
fn named_base(set: &SidecarSet) -> Option<&str> {
    let base = set.metadata.annotations.as_ref()?.get(annotation::SIDECAR_SET_BASE);
    base.map(String::as_str)
}

fn validate_change(new: &SidecarSet, old: &SidecarSet, errors: &mut FieldErrors) {
    for (index, container) in new.spec.containers.iter().enumerate() {
        let at = Path::new("spec").child("containers").index(index);
        let before = old
            .spec
            .containers
            .iter()
            .find(|before| before.name() == container.name());
        let Some(before) = before else {
            let detail = "containers cannot be added or renamed; make another SidecarSet";
            errors.push(FieldError::invalid(&at.child("name"), container.name(), detail));
            continue;
        };
        let (was, is) = (
            &before.policy.upgrade_strategy.upgrade_type,
            &container.policy.upgrade_strategy.upgrade_type,
        );
        if !was.is_unset() && was != is {
            let at = at.child("upgradeStrategy").child("upgradeType");
            let detail = format!("container {} upgradeType is immutable", container.name());
            errors.push(FieldError::invalid(&at, is.as_str(), &detail));
        }
    }
}

/// What has to be looked up before a set can be judged.
pub fn needs(new: &SidecarSet) -> Needs {
    let mut needs = Needs::default();
    needs.objects.insert(ObjectRef::SidecarSets);
    if let Some(named) = select::named_revision(new) {
        needs.objects.insert(revision_ref(new, named));
    }
    if !new.spec.patch_pod_metadata.is_empty() {
        needs.objects.insert(ObjectRef::Configuration);
    }
    needs
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.get("items").and_then(Value::as_array).into_iter().flatten()
}

/// All sets that could be read. One that cannot be read cannot be compared.
fn all_sets(found: &Lookups) -> Result<Vec<SidecarSet>, String> {
    let list = found.object(&ObjectRef::SidecarSets).map_err(str::to_owned)?;
    let sets = list.into_iter().flat_map(items);
    Ok(sets.filter_map(|set| kruise_api::read::from_value(set).ok()).collect())
}

/// The sets that a set can be in conflict with: not itself, not its base and not its canaries.
fn other_sets(new: &SidecarSet, found: &Lookups) -> Result<Vec<SidecarSet>, String> {
    let mut sets = all_sets(found)?;
    let (name, base) = (new.name(), select::canary_of(new));
    sets.retain(|set| set.name() != name && base != Some(set.name()) && select::canary_of(set) != Some(name));
    Ok(sets)
}

/// The Pod that Kubernetes has to take: all containers with all volumes. Nothing when these have not changed.
pub fn template(new: &SidecarSet, old: Option<&SidecarSet>) -> Option<Object> {
    let parts = |set: &SidecarSet| {
        let list = |containers: &[kruise_api::sidecarset::container::SidecarContainer]| -> Vec<Value> {
            let containers = containers.iter().map(|each| Value::Object(each.container.clone()));
            containers.collect()
        };
        (
            list(&set.spec.init_containers),
            list(&set.spec.containers),
            set.spec.volumes.value(),
        )
    };
    let (init_containers, mut containers, volumes) = parts(new);
    if containers.is_empty() && init_containers.is_empty() {
        return None;
    }
    if let Some(old) = old {
        let before = parts(old);
        if before.0 == init_containers && before.1 == containers && before.2 == volumes {
            return None;
        }
    }
    if containers.is_empty() {
        containers.push(json!({"name": "sidecarset-without-containers", "image": "none"}));
    }
    let mut template = Object::new();
    let spec = json!({"initContainers": init_containers, "containers": containers, "volumes": volumes});
    template.insert("spec".to_owned(), spec);
    Some(template)
}
