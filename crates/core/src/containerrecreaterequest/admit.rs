//! A request on its way in: it is checked against the Pod that it names, and notes what the Pod looks like now.
//!
//! A new request
//!
//! 1. names a Pod and containers, and its times are such that they can be kept ([`check`]);
//! 2. names a Pod that is there, has a node and has not ended ([`Target::of`]); a Pod whose sidecars are being terminated may have ended;
//! 3. names containers that have run: each once, none of them an init container, and says nothing about them but the name ([`default_object`]).
//!
//! It gets the labels by which the node's daemon finds it, the Pod's grace period, and of each container its ID, its restarts and its `preStop`
//! hook; the ports only where an HTTP hook may name one. A `sleep` hook becomes an empty one.
//!
//! Later nothing of the spec can be changed, nor the labels that say which Pod and which node ([`forbidden`]).

use std::collections::BTreeSet;

use kruise_api::containerrecreaterequest::FailurePolicy;
use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequestSpec;
use kruise_api::names::{annotation, condition, label};
use kruise_api::read::{ReadError, from_slice};
use serde_json::{Value, json};

use crate::admission::{self, Admit, Env, Lookups, Needs, ObjectRef, Operation, Refusal, Version};
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::tree::{Object, child_or_new, fill};

/// A request as a user submitted it; the spec is the same in both versions.
pub type Submitted = admission::Submitted<ContainerRecreateRequestSpec>;

/// Fewest seconds of `activeDeadlineSeconds`.
const SHORTEST_DEADLINE: i64 = 3;

/// What is wrong with a new request, without a look at the Pod.
pub fn check(new: &Submitted) -> FieldErrors {
    let spec = Path::new("spec");
    let mut errors = FieldErrors::default();
    if new.spec.pod_name.is_empty() {
        errors.push(FieldError::required(&spec.child("podName"), "podName can not be empty"));
    }
    if new.spec.containers.is_empty() {
        errors.push(FieldError::required(
            &spec.child("containers"),
            "containers list can not be null",
        ));
    }
    let deadline = new.spec.active_deadline_seconds;
    if let Some(deadline) = deadline.filter(|deadline| *deadline < SHORTEST_DEADLINE) {
        let at = spec.child("activeDeadlineSeconds");
        errors.push(FieldError::invalid(
            &at,
            deadline,
            "activeDeadlineSeconds can not be less than 3s",
        ));
    }
    let Some(strategy) = &new.spec.strategy else {
        return errors;
    };
    let at = spec.child("strategy");
    for (field, seconds) in [
        (
            "terminationGracePeriodSeconds",
            strategy.termination_grace_period_seconds,
        ),
        ("unreadyGracePeriodSeconds", strategy.unready_grace_period_seconds),
    ] {
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 0) {
            let detail = format!("{field} must be non-negative integer");
            errors.push(FieldError::invalid(&at.child(field), seconds, &detail));
        }
    }
    if let FailurePolicy::Other(word) = &strategy.failure_policy {
        let detail = format!("unknown failurePolicy {word}");
        errors.push(FieldError::invalid(&at.child("failurePolicy"), &**word, &detail));
    }
    errors
}

/// The Pod that is meant, and its node.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pod: &'a Value,
    /// Name of the node.
    pub node: &'a str,
}

impl<'a> Target<'a> {
    /// The Pod of this name; why it cannot be worked on when it is not there, has ended, or has no node.
    pub fn of(name: &str, pod: Option<&'a Value>) -> Result<Self, FieldError> {
        let at = Path::new("spec").child("podName");
        let refused = |detail: &str| FieldError::invalid(&at, name, detail);
        let Some(pod) = pod else {
            return Err(refused(&format!("no found Pod named {name}")));
        };
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        let has_ended =
            matches!(phase, Some("Succeeded" | "Failed")) || is_given(pod.pointer("/metadata/deletionTimestamp"));
        let ends_sidecars = list(pod, "/status/conditions")
            .any(|condition| text(condition, "type") == Some(condition::pod::SIDECAR_TERMINATED));
        if has_ended && !ends_sidecars {
            return Err(refused("not allowed to recreate containers in an inactive Pod"));
        }
        let node = pod
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .filter(|node| !node.is_empty());
        let node = node.ok_or_else(|| refused("not allowed to recreate containers in a pending Pod"))?;
        Ok(Self { pod, node })
    }
}

/// Why the node is no good: it is not there.
pub fn no_node(name: &str, node: &str) -> FieldError {
    let at = Path::new("spec").child("podName");
    FieldError::invalid(&at, name, &format!("no found Node {node} of the Pod"))
}

/// Writes into a new request what the Pod and its node look like now.
pub fn default_object(object: &mut Object, target: &Target<'_>, node: &Value) -> Result<(), FieldError> {
    let pod = target.pod;
    if let Some(labels) = child_or_new(object, "metadata").and_then(|metadata| child_or_new(metadata, "labels")) {
        let uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        labels.insert(label::CRR_ACTIVE.to_owned(), json!("true"));
        labels.insert(label::CRR_NODE_NAME.to_owned(), json!(target.node));
        labels.insert(label::CRR_POD_UID.to_owned(), json!(uid));
        let kind = node
            .pointer("/metadata/labels")
            .and_then(|labels| text(labels, label::NODE_TYPE));
        if kind == Some(label::NODE_TYPE_VIRTUAL) {
            labels.insert(label::NODE_TYPE.to_owned(), json!(label::NODE_TYPE_VIRTUAL));
        }
    }
    let Some(spec) = child_or_new(object, "spec") else {
        return Ok(());
    };
    if let Some(strategy) = child_or_new(spec, "strategy") {
        fill(strategy, "failurePolicy", json!("Fail"));
        if let Some(grace) = pod
            .pointer("/spec/terminationGracePeriodSeconds")
            .filter(|grace| grace.is_i64())
        {
            fill(strategy, "terminationGracePeriodSeconds", grace.clone());
        }
    }
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    let mut seen = BTreeSet::new();
    for (index, container) in containers.into_iter().flatten().enumerate() {
        let at = Path::new("spec").child("containers").index(index);
        if let Some(container) = container.as_object_mut() {
            let name = container
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            if !seen.insert(name.clone()) {
                return Err(FieldError::invalid(
                    &at.child("name"),
                    name.as_str(),
                    "duplicated container name",
                ));
            }
            note(container, &name, pod, &at)?;
        }
    }
    Ok(())
}

/// Notes what one container looks like now.
fn note(container: &mut Object, name: &str, pod: &Value, at: &Path) -> Result<(), FieldError> {
    for field in ["preStop", "ports", "statusContext"] {
        if is_given(container.get(field)) {
            let detail = "preStop, ports, statusContext in container are ready-only fields";
            return Err(FieldError::forbidden(&at.child(field), detail));
        }
    }
    let at = at.child("name");
    let refused = |detail: String| FieldError::invalid(&at, name, &detail);
    let is_it = |known: &&Value| text(known, "name") == Some(name);
    let declared = list(pod, "/spec/containers")
        .chain(list(pod, "/spec/initContainers"))
        .find(is_it);
    let declared = declared.ok_or_else(|| refused(format!("container {name} not found in Pod")))?;
    let status = list(pod, "/status/containerStatuses").find(is_it);
    let status = status.ok_or_else(|| refused(format!("not found {name} containerStatus in Pod Status")))?;
    let id = text(status, "containerID").filter(|id| !id.is_empty()).ok_or_else(|| {
        refused(format!(
            "no containerID in {name} containerStatus, maybe the container has not been initialized"
        ))
    })?;
    let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
    container.insert(
        "statusContext".to_owned(),
        json!({"containerID": id, "restartCount": restarts}),
    );
    if let Some(hook) = declared.pointer("/lifecycle/preStop").and_then(Value::as_object) {
        let known = ["exec", "httpGet", "tcpSocket"];
        let copied = hook
            .iter()
            .filter(|(kind, value)| known.contains(&kind.as_str()) && !value.is_null());
        let copied: Object = copied.map(|(kind, value)| (kind.clone(), value.clone())).collect();
        let may_name_port = copied.contains_key("httpGet");
        container.insert("preStop".to_owned(), Value::Object(copied));
        if let Some(ports) = declared.get("ports").filter(|ports| may_name_port && ports.is_array()) {
            container.insert("ports".to_owned(), ports.clone());
        }
    }
    Ok(())
}

/// Why a request may not be changed like this. `has_annotations`: v1alpha1 keeps in an annotation since when the Pod is held not ready.
pub fn forbidden(new: &Submitted, old: &Submitted, has_annotations: bool) -> Option<FieldError> {
    if new.spec != old.spec {
        return Some(FieldError::forbidden(
            &Path::new("spec"),
            "spec of ContainerRecreateRequest is immutable",
        ));
    }
    let at = Path::new("metadata");
    let labels = |submitted: &Submitted, key: &str| {
        submitted
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key).cloned())
    };
    for key in [label::CRR_POD_UID, label::CRR_NODE_NAME] {
        if labels(new, key) != labels(old, key) {
            let detail = format!("label {key} of ContainerRecreateRequest is immutable");
            return Some(FieldError::forbidden(&at.child("labels").key(key), &detail));
        }
    }
    let key = annotation::CRR_UNREADY_ACQUIRED;
    let held = |submitted: &Submitted| {
        submitted
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(key).cloned())
            .unwrap_or_default()
    };
    let was = held(old);
    (has_annotations && !was.is_empty() && held(new) != was).then(|| {
        let detail = format!("annotation {key} of ContainerRecreateRequest is immutable");
        FieldError::forbidden(&at.child("annotations").key(key), &detail)
    })
}

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    /// The Pod, and then its node. Both as the API server has them at the time of the request: the IDs of containers that a user has just seen may not
    /// have reached a cache, and an ID of the container before would have the wrong one stopped, or none.
    fn needs_to_default(&self, env: &Env, found: &Lookups) -> Needs {
        if env.operation == Operation::Update {
            return Needs::default();
        }
        let pod = ObjectRef::Pod(self.spec.pod_name.clone());
        let node = match found.object(&pod) {
            Ok(known) => Target::of(&self.spec.pod_name, known)
                .ok()
                .map(|target| target.node.to_owned()),
            Err(_) => None,
        };
        Needs {
            objects: std::iter::once(pod).chain(node.map(ObjectRef::Node)).collect(),
            ..Needs::default()
        }
    }

    fn default(object: &mut Object, _: Option<&Object>, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        if env.operation == Operation::Update {
            return Ok(());
        }
        let name = object.get("spec").and_then(|spec| text(spec, "podName"));
        let name = name.unwrap_or_default().to_owned();
        let unknown = |what: String, reason: &str| Refusal::new(500, format!("{what} cannot be looked up: {reason}"));
        let pod = found.object(&ObjectRef::Pod(name.clone()));
        let pod = pod.map_err(|reason| unknown(format!("Pod {name}"), reason))?;
        let target = Target::of(&name, pod)?;
        let node = found.object(&ObjectRef::Node(target.node.to_owned()));
        let node = node.map_err(|reason| unknown(format!("Node {}", target.node), reason))?;
        let node = node.ok_or_else(|| no_node(&name, target.node))?;
        default_object(object, &target, node)?;
        Ok(())
    }

    fn validate(&self, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        check(self).into_result()
    }

    fn validate_update(&self, old: &Self, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        match forbidden(self, old, env.version == Version::V1alpha1) {
            Some(error) => Err(Refusal::new(403, error.to_string())),
            None => Ok(()),
        }
    }
}

fn is_given(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null)) && value.and_then(Value::as_array).is_none_or(|list| !list.is_empty())
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}
