//! A Pod as JSON again, for models that apply patches to it. What was not kept when it was read is not there.

use serde_json::{Value, json};

use super::status::{ContainerState, ContainerStatus, Holds, PodCondition};
use super::{Container, EnvVar, EphemeralContainer, NodeRequirement, NodeTerm, Pod, Resources, Toleration};
use crate::meta::json::{texts, time};
use crate::names::env;
use crate::text::Text;

impl Pod {
    /// Returns it as it is written; reading that gives the same again, but for what is kept only while it is updated in place.
    pub fn to_json(&self) -> Value {
        let (spec, status) = (&self.spec, &self.status);
        let template = &*spec.template;
        let gates = all(&template.readiness_gates, |gate| json!({"conditionType": &**gate}));
        let claims = all(
            &spec.claims,
            |claim| json!({"name": &*claim.volume, "persistentVolumeClaim": {"claimName": &*claim.name}}),
        );
        json!({
            "metadata": self.metadata.to_json(),
            "spec": {
                "nodeName": &*spec.node_name,
                "containers": all(&template.containers, container),
                "initContainers": all(&template.init_containers, container),
                "ephemeralContainers": all(&spec.ephemeral_containers.0, ephemeral),
                "readinessGates": gates,
                "restartPolicy": &*template.restart_policy,
                "nodeSelector": texts(&template.node_selector),
                "tolerations": all(&template.tolerations, toleration),
                "terminationGracePeriodSeconds": template.termination_grace_period_seconds,
                "overhead": texts(&template.overhead),
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": all(&spec.required_nodes.0, term),
                }}},
                "volumes": claims,
            },
            "status": {
                "phase": status.phase.as_str(),
                "reason": &*status.reason,
                "podIP": &*status.pod_ip,
                "conditions": all(&status.conditions, condition),
                "containerStatuses": all(&status.container_statuses, container_status),
                "initContainerStatuses": all(&status.init_container_statuses, container_status),
                "ephemeralContainerStatuses": all(&status.ephemeral_container_statuses, container_status),
            },
        })
    }
}

fn all<T>(items: &[T], one: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(one).collect())
}

fn words(items: &[Text]) -> Value {
    all(items, |item| Value::from(&**item))
}

fn container(container: &Container) -> Value {
    let policies = all(
        &container.restarts_for,
        |resource| json!({"resourceName": &**resource, "restartPolicy": "RestartContainer"}),
    );
    json!({
        "name": &*container.name, "image": &*container.image, "restartPolicy": &*container.restart_policy,
        "env": all(&container.env, variable), "resources": resources(&container.resources), "resizePolicy": policies,
        "ports": all(&container.named_ports, |port| json!({"name": &*port.name, "containerPort": port.container_port})),
    })
}

fn variable(variable: &EnvVar) -> Value {
    json!({"name": &*variable.name, "value": &*variable.value, "valueFrom": {
        "fieldRef": {"fieldPath": &*variable.field_path}, "configMapKeyRef": {"key": &*variable.config_map_key},
    }})
}

fn resources(resources: &Resources) -> Value {
    json!({"limits": texts(&resources.limits), "requests": texts(&resources.requests)})
}

fn ephemeral(container: &EphemeralContainer) -> Value {
    json!({"name": &*container.name, "env": [{"name": env::EPHEMERAL_JOB_ID, "value": &*container.job}]})
}

fn toleration(toleration: &Toleration) -> Value {
    json!({
        "key": &*toleration.key, "operator": &*toleration.operator, "value": &*toleration.value,
        "effect": &*toleration.effect, "tolerationSeconds": toleration.toleration_seconds,
    })
}

fn term(term: &NodeTerm) -> Value {
    let requirement = |requirement: &NodeRequirement| json!({"key": &*requirement.key, "operator": &*requirement.operator, "values": words(&requirement.values)});
    json!({
        "matchExpressions": all(&term.match_expressions, requirement), "matchFields": all(&term.match_fields, requirement),
    })
}

fn condition(condition: &PodCondition) -> Value {
    let status = match condition.status {
        Holds::True => "True",
        Holds::False => "False",
        Holds::Unknown => "Unknown",
    };
    json!({
        "type": &*condition.type_, "status": status, "lastTransitionTime": time(condition.last_transition_time),
        "reason": &*condition.reason, "message": &*condition.message,
    })
}

fn container_status(status: &ContainerStatus) -> Value {
    let state = match &status.state {
        ContainerState::Unknown => json!({}),
        ContainerState::Waiting { reason } => json!({"waiting": {"reason": &**reason}}),
        ContainerState::Running { started_at } => json!({"running": {"startedAt": time(*started_at)}}),
        ContainerState::Terminated {
            exit_code,
            reason,
            finished_at,
        } => json!({"terminated": {"exitCode": exit_code, "reason": &**reason, "finishedAt": time(*finished_at)}}),
    };
    json!({
        "name": &*status.name, "image": &*status.image, "imageID": &*status.image_id,
        "containerID": status.container_id.to_string(), "ready": status.ready, "started": status.started,
        "restartCount": status.restart_count, "state": state,
        "resources": status.resources.as_ref().map(|known| resources(known)),
    })
}
