//! What we write into the Pod and claim templates of workloads, so that a template says what its Pods will be.
//!
//! The defaults are those of Kubernetes as far as the original writes them, with two exceptions that users and stored revisions rely on:
//! the pull policy of a container is `Always` whatever its tag (init containers go by the tag), and what newer Kubernetes releases
//! default is *not* written. A default more or less changes the hash of a template, and with it restarts every Pod of the workload: this table must
//! not depend on the version of the API server, nor on whether it could be asked.
//!
//! | written | not written, although a Pod gets it |
//! |---|---|
//! | `restartPolicy`, `dnsPolicy` (`ClusterFirst` also on the host network), `schedulerName`, `securityContext`, `terminationGracePeriodSeconds` | `enableServiceLinks`, `serviceAccount` |
//! | of containers: `imagePullPolicy`, `terminationMessagePath`, `terminationMessagePolicy`, port protocols, probes, HTTP hooks | requests from limits |
//! | `fieldRef.apiVersion`, file modes, `hostPath.type`, lifetime of tokens, `emptyDir` for a volume without source | defaults of iSCSI and ephemeral claims |
//! | host ports on the host network, with gate `DefaultHostNetworkHostPortsInPodTemplates` | spread policies |
//! | amounts in canonical form, rounded up to thousandths | |
//! | of claims: amounts in canonical form, `status.phase` | `volumeMode`, `apiVersion`, `kind` |
//!
//! Gate `TemplateNoDefaults` turns all of it off. Fields we do not know are kept.
//!
//! [`artefacts`] adds what the original leaves behind whenever it writes anything; without it a template would look changed after a switch.

mod image;
mod table;
pub mod workload;

use crate::field_error::{FieldError, Path};
use crate::shared::{
    quantity,
    tree::{Object, child, child_or_new, each},
};
use kruise_api::gates::{Gate, Gates};
use serde_json::{Value, json};

/// Writes the defaults into a Pod template (`metadata` and `spec`). Says whether there was anything to write.
pub fn default(template: &mut Object, gates: Gates) -> bool {
    if gates.enabled(Gate::TemplateNoDefaults) {
        return false;
    }
    let mut changed = table::fill_all(template);
    each(template, "spec.volumes[].name", &mut |volume, _| {
        if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
            volume.insert("emptyDir".into(), json!({}));
            changed = true;
        }
    });
    if gates.enabled(Gate::DefaultHostNetworkHostPortsInPodTemplates) {
        changed |= default_host_ports(template);
    }
    for path in ROUNDED {
        changed |= rewrite_amounts(template, path, quantity::in_thousandths);
    }
    changed
}

/// Amounts that are rounded up to thousandths.
const ROUNDED: [&str; 7] = [
    "spec.overhead",
    "spec.resources.limits",
    "spec.resources.requests",
    "spec.containers[].resources.limits",
    "spec.containers[].resources.requests",
    "spec.initContainers[].resources.limits",
    "spec.initContainers[].resources.requests",
];

fn default_host_ports(template: &mut Object) -> bool {
    let spec = child(template, "spec");
    if spec.and_then(|spec| spec.get("hostNetwork")) != Some(&Value::Bool(true)) {
        return false;
    }
    let mut changed = false;
    for path in [
        "spec.containers[].ports[].hostPort",
        "spec.initContainers[].ports[].hostPort",
    ] {
        each(template, path, &mut |port, name| {
            let container_port = port.get("containerPort").cloned();
            if table::is_blank(port.get(name))
                && let Some(container_port) = container_port.filter(|port| !table::is_blank(Some(port)))
            {
                port.insert(name.to_owned(), container_port);
                changed = true;
            }
        });
    }
    changed
}

/// Writes the defaults into a claim template. Says whether there was anything to write.
pub fn default_claim(claim: &mut Object, gates: Gates) -> bool {
    if gates.enabled(Gate::TemplateNoDefaults) {
        return false;
    }
    let mut changed = false;
    if let Some(status) = child_or_new(claim, "status")
        && table::is_blank(status.get("phase"))
    {
        status.insert("phase".into(), "Pending".into());
        changed = true;
    }
    for path in ["spec.resources.limits", "spec.resources.requests", "status.capacity"] {
        changed |= rewrite_amounts(claim, path, quantity::in_thousandths);
    }
    changed
}

/// Adds to a Pod template what the original's way of writing leaves behind: to be used when anything else of the object is written.
pub fn artefacts(template: &mut Object) {
    null_creation_time(template);
    for list in ["spec.containers[]", "spec.initContainers[]"] {
        each(template, &format!("{list}.resources"), &mut insert_missing(&json!({})));
        let divisor = format!("{list}.env[].valueFrom.resourceFieldRef.divisor");
        each(template, &divisor, &mut insert_missing(&json!("0")));
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let service = format!("{list}.{probe}.grpc.service");
            each(template, &service, &mut insert_missing(&Value::Null));
        }
    }
    for path in [
        "spec.volumes[].downwardAPI.items[].resourceFieldRef.divisor",
        "spec.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.divisor",
    ] {
        each(template, path, &mut insert_missing(&json!("0")));
    }
    each(
        template,
        "spec.volumes[].ephemeral.volumeClaimTemplate",
        &mut |parent, name| {
            if let Some(claim) = child(parent, name) {
                null_creation_time(claim);
                each(claim, "spec.resources", &mut insert_missing(&json!({})));
            }
        },
    );
    for path in AMOUNTS {
        rewrite_amounts(template, path, quantity::canonical);
    }
}

/// Amounts that are written in canonical form.
const AMOUNTS: [&str; 9] = [
    "spec.overhead",
    "spec.resources.limits",
    "spec.resources.requests",
    "spec.containers[].resources.limits",
    "spec.containers[].resources.requests",
    "spec.initContainers[].resources.limits",
    "spec.initContainers[].resources.requests",
    "spec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.limits",
    "spec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.requests",
];

/// As [`artefacts`], for a claim template.
pub fn claim_artefacts(claim: &mut Object) {
    null_creation_time(claim);
    insert_missing(&json!({}))(claim, "status");
    each(claim, "spec.resources", &mut insert_missing(&json!({})));
    for path in ["spec.resources.limits", "spec.resources.requests", "status.capacity"] {
        rewrite_amounts(claim, path, quantity::canonical);
    }
}

/// Says of every privileged container of a Pod template at `path` that it is forbidden.
pub fn privileged(template: &Object, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = template
            .get("spec")
            .and_then(|spec| spec.get(list))
            .and_then(Value::as_array);
        for (index, container) in containers.into_iter().flatten().enumerate() {
            if container.pointer("/securityContext/privileged") == Some(&Value::Bool(true)) {
                let place = path.child("spec").child(list).index(index).child("securityContext");
                errors.push(FieldError::forbidden(
                    &place.child("privileged"),
                    "disallowed by cluster policy",
                ));
            }
        }
    }
    errors
}

fn null_creation_time(object: &mut Object) {
    if let Some(metadata) = child_or_new(object, "metadata") {
        insert_missing(&Value::Null)(metadata, "creationTimestamp");
    }
}

fn insert_missing(value: &Value) -> impl FnMut(&mut Object, &str) + use<'_> {
    |parent, name| {
        if !parent.contains_key(name) {
            parent.insert(name.to_owned(), value.clone());
        }
    }
}

/// Rewrites all amounts of the map that `path` leads to. What is no quantity stays; the API server will say so.
fn rewrite_amounts(object: &mut Object, path: &str, rewrite: fn(&str) -> Option<String>) -> bool {
    let mut changed = false;
    each(object, path, &mut |parent, name| {
        let Some(amounts) = child(parent, name) else { return };
        for amount in amounts.values_mut() {
            let text = match &*amount {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if let Some(new) = rewrite(text.trim()).map(Value::String)
                && new != *amount
            {
                *amount = new;
                changed = true;
            }
        }
    });
    changed
}

#[cfg(test)]
mod tests;
