//! How one injected container is made from what a set declares and what the Pod has.
//!
//! - Mounts of the Pod's own containers are shared where asked, unless the path is taken by a mount or device of its own. Variables that their `subPathExpr` names
//!   come along, even for a mount that was left out.
//! - Variables of other containers are taken over as they are. What is not there is passed over.
//! - Variables stand in this order: its own, `IS_INJECTED`, those taken over, those of sub-paths, the versions of a hot upgrade. A name that is there is not
//!   added again.
//! - Devices are shared as mounts are.
//! - For a hot upgrade there are two of it: `-1` has the image, `-2` the empty one.

use super::{Declared, InjectError, Injection, resources};
use crate::shared::tree::Object;
use kruise_api::names::{annotation, env, pattern};
use kruise_api::sidecarset::container::{SharePolicyType, SidecarContainer, TransferEnv};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What sidecars can take from a Pod.
#[derive(Debug)]
pub struct Sources<'a> {
    pod: &'a Value,
    containers: &'a [Value],
    init_containers: &'a [Value],
    /// Declared names of all sidecars.
    declared: BTreeSet<&'a str>,
}

impl<'a> Sources<'a> {
    /// All that a Pod has, for these sets.
    pub fn of(pod: &'a Value, sets: &'a [Injection<'_>]) -> Self {
        let list = |field: &str| {
            let list = pod
                .get("spec")
                .and_then(|spec| spec.get(field))
                .and_then(Value::as_array);
            list.map_or(&[] as &[Value], Vec::as_slice)
        };
        let declared = sets
            .iter()
            .flat_map(|set| set.spec.init_containers.iter().chain(&set.spec.containers));
        Self {
            pod,
            containers: list("containers"),
            init_containers: list("initContainers"),
            declared: declared.map(SidecarContainer::name).collect(),
        }
    }

    /// The containers that no set put in.
    fn own(&self) -> impl Iterator<Item = &'a Value> {
        self.containers.iter().filter(|container| !is_injected(container))
    }

    /// The containers whose resources count: those that run until the Pod ends and that no set declares.
    pub(super) fn targets(&self) -> impl Iterator<Item = &'a Value> {
        let native = self
            .init_containers
            .iter()
            .filter(|each| super::is_native_sidecar(each));
        let all = native.chain(self.containers);
        all.filter(|container| !self.declared.contains(super::name_of(container)))
    }

    fn container(&self, name: &str) -> Option<&'a Value> {
        self.containers
            .iter()
            .find(|container| super::name_of(container) == name)
    }
}

/// Whether a set put a container in.
pub fn is_injected(container: &Value) -> bool {
    items(container, "env").any(|variable| {
        super::name_of(variable) == env::IS_INJECTED && variable.get("value").and_then(Value::as_str) == Some("true")
    })
}

fn items<'a>(container: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    container.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn own_items<'a>(container: &'a Object, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    container.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Names of the volumes that a container mounts by itself.
pub fn own_volumes(container: &Object) -> impl Iterator<Item = String> + '_ {
    let mounts = own_items(container, "volumeMounts").chain(own_items(container, "volumeDevices"));
    mounts.map(|mount| super::name_of(mount).to_owned())
}

/// Makes the containers of one declaration: two for a hot upgrade, else one.
///
/// # Errors
/// When its resources cannot be reckoned.
pub(super) fn make(set: &str, of: Declared<'_>, from: &Sources<'_>) -> Result<Vec<Object>, InjectError> {
    let declared = of.container;
    let policy = &declared.policy;
    let mut container = declared.container.clone();
    if let Some(policy) = &policy.resources_policy {
        let reckoned = resources::reckon(policy, from.targets()).map_err(|reason| InjectError::Resources {
            set: set.to_owned(),
            container: declared.name().to_owned(),
            reason,
        })?;
        container.insert("resources".to_owned(), reckoned);
    }
    let shares_mounts = policy.share_volume_policy.type_ == SharePolicyType::Enabled;
    let shares_devices =
        (policy.share_volume_device_policy.as_ref()).is_some_and(|policy| policy.type_ == SharePolicyType::Enabled);
    let mut wanted: Vec<(&Value, &str)> = Vec::new();
    for transfer in &policy.transfer_env {
        if let Some(source) = source(transfer, from) {
            wanted.extend(names(transfer).into_iter().map(|name| (source, name)));
        }
    }
    if shares_mounts {
        wanted.extend(sub_path_variables(from));
        share(&mut container, "volumeMounts", "mountPath", from);
    }
    if shares_devices {
        share(&mut container, "volumeDevices", "devicePath", from);
    }
    append(&mut container, "env", variables(&declared.container, &wanted));
    if of.is_twice() {
        return Ok(twins(container, declared));
    }
    Ok(vec![container])
}

/// The variables that come behind a container's own: of the wanted ones those that are there, each name once.
fn variables(own: &Object, wanted: &[(&Value, &str)]) -> Vec<Value> {
    let mut variables = vec![json!({"name": env::IS_INJECTED, "value": "true"})];
    let mut known: BTreeSet<&str> = own_items(own, "env").map(super::name_of).collect();
    known.insert(env::IS_INJECTED);
    for (source, name) in wanted {
        let found = items(source, "env").find(|variable| super::name_of(variable) == *name);
        if let Some(variable) = found
            && known.insert(name)
        {
            variables.push(variable.clone());
        }
    }
    variables
}

/// Appends what the Pod's own containers have in a list, by path; a path that is taken stays as it is.
fn share(container: &mut Object, field: &str, path: &str, from: &Sources<'_>) {
    let mounts = own_items(container, "volumeMounts").map(|mount| text(mount, "mountPath"));
    let devices = own_items(container, "volumeDevices").map(|device| text(device, "devicePath"));
    let mut taken: BTreeSet<String> = mounts.chain(devices).map(str::to_owned).collect();
    let theirs = from.own().flat_map(|container| items(container, field));
    let shared: Vec<Value> = theirs
        .filter(|mount| taken.insert(text(mount, path).to_owned()))
        .cloned()
        .collect();
    append(container, field, shared);
}

fn append(container: &mut Object, field: &str, mut items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    match container.get_mut(field) {
        Some(Value::Array(list)) => list.append(&mut items),
        _ => {
            container.insert(field.to_owned(), Value::Array(items));
        }
    }
}

/// Variables that the sub-paths of the Pod's own mounts name, with the container that has them.
fn sub_path_variables<'a>(from: &Sources<'a>) -> Vec<(&'a Value, &'a str)> {
    let mut found = Vec::new();
    for container in from.own() {
        for mount in items(container, "volumeMounts") {
            found.extend(
                references(text(mount, "subPathExpr"))
                    .into_iter()
                    .map(|name| (container, name)),
            );
        }
    }
    found
}

/// The names in `$(NAME)`.
fn references(expression: &str) -> Vec<&str> {
    let starts = |sign: char| sign.is_ascii_alphabetic() || "-._".contains(sign);
    let goes_on = |sign: char| starts(sign) || sign.is_ascii_digit();
    let mut names = Vec::new();
    let mut rest = expression;
    while let Some((_, after)) = rest.split_once("$(") {
        let end = after.find(|sign| !goes_on(sign)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        if name.starts_with(starts) && behind.starts_with(')') {
            names.push(name);
        }
        rest = after;
    }
    names
}

/// The names of the variables to take over, sorted.
fn names(transfer: &TransferEnv) -> BTreeSet<&str> {
    let all = transfer.env_names.iter().chain([&transfer.env_name]);
    all.map(String::as_str).filter(|name| !name.is_empty()).collect()
}

/// The container from which variables are taken.
fn source<'a>(transfer: &TransferEnv, from: &Sources<'a>) -> Option<&'a Value> {
    let reference = transfer
        .source_container_name_from
        .as_ref()
        .and_then(|from| from.field_ref.as_ref());
    let name = match reference {
        Some(reference) => field(from.pod, &reference.field_path)?,
        None => &transfer.source_container_name,
    };
    from.container(name)
}

/// A label or annotation of a Pod: `metadata.labels['key']`.
fn field<'a>(pod: &'a Value, path: &str) -> Option<&'a str> {
    let (map, key) = label_or_annotation(path)?;
    pod.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// Takes `metadata.labels['key']` apart; nothing when it is anything else.
pub fn label_or_annotation(path: &str) -> Option<(&'static str, &str)> {
    let rest = path.strip_prefix("metadata.")?;
    let (map, rest) = [("labels", "labels["), ("annotations", "annotations[")]
        .into_iter()
        .find_map(|(map, prefix)| Some((map, rest.strip_prefix(prefix)?)))?;
    let key = rest.strip_suffix("']")?.strip_prefix('\'')?;
    Some((map, key))
}

/// The two containers of a hot upgrade.
fn twins(container: Object, declared: &SidecarContainer) -> Vec<Object> {
    let [working, waiting] = pattern::hot_upgrade_containers(declared.name());
    let empty = &declared.policy.upgrade_strategy.hot_upgrade_empty_image;
    let mut second = container.clone();
    second.insert("image".to_owned(), json!(empty));
    [(container, working), (second, waiting)]
        .into_iter()
        .map(|(mut container, name)| {
            let version = |variable: &str, prefix: &str| {
                let path = format!("metadata.annotations['{prefix}{name}']");
                json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}})
            };
            let versions = vec![
                version(env::SIDECAR_SET_VERSION, annotation::SIDECAR_VERSION_PREFIX),
                version(env::SIDECAR_SET_VERSION_ALT, annotation::SIDECAR_VERSION_ALT_PREFIX),
            ];
            append(&mut container, "env", versions);
            container.insert("name".to_owned(), json!(name));
            container
        })
        .collect()
}
