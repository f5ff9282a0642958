//! What a kubelet reports of a Pod, and the smallest patch that says it.
//!
//! [`report`] computes the whole status from the Pod's life; [`difference`] turns it into a strategic merge patch that carries only what
//! differs from the status last read. Conditions are keyed by type, so those of other writers (readiness gates) are never touched.
//! Lists of container statuses are atomic in the API and are always sent whole.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::container::{ContainerLife, Recipe, seconds};
use super::life::{Life, Outcome, Reading, ephemeral_recipe, init_recipe, main_recipe};
use super::script::{Resize, Script};
use super::view::{Condition, Container, ContainerStatus, PodView, Status};

/// Addresses the engine has given out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses<'a> {
    pub(super) host: &'a str,
    pub(super) pod: &'a str,
}

/// The conditions the kubelet owns. Only these may be removed by it.
const RESIZE_CONDITIONS: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

pub(super) fn report(pod: &PodView, life: &Life, reading: Reading, addresses: Addresses, now: Timestamp) -> Status {
    let fallback = Script::default();
    let script = reading.unwrap_or(&fallback);
    let mut status = pod.status.clone();
    if let Some(fixed) = &script.phase {
        if fixed.phase != "Pending" {
            status.phase.clone_from(&fixed.phase);
            status.reason.clone_from(&fixed.reason);
            status.message.clone_from(&fixed.message);
            let reason = terminal_reason(&fixed.phase);
            for kind in ["ContainersReady", "Ready"] {
                set(&mut status, condition(kind, false, reason, None), now);
            }
        }
        return status;
    }
    let Some(started) = life.started else { return status };
    if let Some(generation) = pod.metadata.generation.filter(|generation| *generation > 0) {
        status.observed_generation = Some(generation);
    }
    status.start_time = Some(seconds(started));
    status.host_ip = Some(addresses.host.to_owned());
    status.pod_ip = Some(addresses.pod.to_owned());

    let inits = recipes(&pod.spec.init_containers, &life.inits, |container| {
        init_recipe(pod, container, script, None)
    });
    let mains = recipes(&pod.spec.containers, &life.containers, |container| {
        main_recipe(pod, container, script, None)
    });
    let extras = recipes(&pod.spec.ephemeral_containers, &life.ephemerals, |c| {
        ephemeral_recipe(pod, c, script)
    });
    status.init_container_statuses = inits.iter().map(|(life, recipe)| life.status(recipe, now)).collect();
    status.container_statuses = mains.iter().map(|(life, recipe)| life.status(recipe, now)).collect();
    // Nobody probes an ephemeral container.
    status.ephemeral_container_statuses = extras
        .iter()
        .map(|(life, recipe)| ContainerStatus {
            ready: false,
            started: None,
            ..life.status(recipe, now)
        })
        .collect();

    phase(life, &status).clone_into(&mut status.phase);
    let ended = terminal_reason(&status.phase);
    set(
        &mut status,
        condition(
            "PodReadyToStartContainers",
            ended.is_none() && !life.stopped,
            None,
            None,
        ),
        now,
    );
    let incomplete = names(&inits, |life, recipe| {
        life.exit_code() != Some(0) && recipe.ends_by_itself
    });
    let initialized = if life.initialized {
        condition(
            "Initialized",
            true,
            ended.filter(|reason| *reason == "PodCompleted"),
            None,
        )
    } else {
        let message = format!("containers with incomplete status: [{incomplete}]");
        condition("Initialized", false, Some("ContainersNotInitialized"), Some(message))
    };
    set(&mut status, initialized, now);
    let containers_ready = containers_ready(&inits, &mains, ended, now);
    let ready = ready(pod, &containers_ready);
    set(&mut status, containers_ready, now);
    set(&mut status, ready, now);
    if status.condition("PodScheduled").is_none() {
        set(&mut status, condition("PodScheduled", true, None, None), now);
    }
    report_resize(&mut status, &mains, script, now);
    status
}

/// What the node controller does to the Pods of a node that has fallen silent: Ready turns False, all else stays.
pub(super) fn report_unreachable(pod: &PodView, now: Timestamp) -> Status {
    let mut status = pod.status.clone();
    if let Some(ready) = pod.status.condition("Ready") {
        set(
            &mut status,
            Condition {
                status: "False".to_owned(),
                last_transition_time: None,
                ..ready.clone()
            },
            now,
        );
    }
    status
}

fn recipes<'a>(
    containers: &'a [Container],
    lives: &'a [ContainerLife],
    recipe: impl Fn(&'a Container) -> Recipe<'a>,
) -> Vec<(&'a ContainerLife, Recipe<'a>)> {
    lives
        .iter()
        .zip(containers)
        .map(|(life, container)| (life, recipe(container)))
        .collect()
}

fn names(lives: &[(&ContainerLife, Recipe)], pick: impl Fn(&ContainerLife, &Recipe) -> bool) -> String {
    let picked = lives.iter().filter(|(life, recipe)| pick(life, recipe));
    picked
        .map(|(_, recipe)| recipe.container.name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

fn phase<'a>(life: &Life, status: &Status) -> &'a str {
    match life.outcome {
        Some(Outcome::Succeeded) => "Succeeded",
        Some(Outcome::Failed) => "Failed",
        None if life.stopped => {
            let exits = status
                .container_statuses
                .iter()
                .filter_map(|one| one.state.terminated.as_ref());
            if exits.into_iter().any(|exit| exit.exit_code != 0) {
                "Failed"
            } else {
                "Succeeded"
            }
        }
        None if !life.initialized || life.containers.iter().any(ContainerLife::never_started) => "Pending",
        None => "Running",
    }
}

fn terminal_reason(phase: &str) -> Option<&'static str> {
    match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    }
}

fn containers_ready(
    inits: &[(&ContainerLife, Recipe)],
    mains: &[(&ContainerLife, Recipe)],
    ended: Option<&'static str>,
    now: Timestamp,
) -> Condition {
    if let Some(reason) = ended {
        return condition("ContainersReady", false, Some(reason), None);
    }
    let sidecars: Vec<_> = inits
        .iter()
        .filter(|(_, recipe)| recipe.container.is_sidecar())
        .copied()
        .collect();
    let all = [sidecars, mains.to_vec()].concat();
    let unready = names(&all, |life, recipe| !life.is_ready(recipe, now));
    if unready.is_empty() {
        return condition("ContainersReady", true, None, None);
    }
    let message = format!("containers with unready status: [{unready}]");
    condition("ContainersReady", false, Some("ContainersNotReady"), Some(message))
}

/// A Pod is Ready when its containers are and every readiness gate is True.
fn ready(pod: &PodView, containers_ready: &Condition) -> Condition {
    if containers_ready.status != "True" {
        return Condition {
            kind: "Ready".to_owned(),
            ..containers_ready.clone()
        };
    }
    let closed = pod.spec.readiness_gates.iter().filter_map(|gate| {
        let kind = &gate.condition_type;
        match pod.status.condition(kind) {
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(found) if found.status != "True" => Some(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                found.status
            )),
            Some(_) => None,
        }
    });
    let messages = closed.collect::<Vec<_>>().join(", ");
    if messages.is_empty() {
        return condition("Ready", true, None, None);
    }
    condition("Ready", false, Some("ReadinessGatesNotReady"), Some(messages))
}

fn report_resize(status: &mut Status, mains: &[(&ContainerLife, Recipe)], script: &Script, now: Timestamp) {
    status
        .conditions
        .retain(|known| !RESIZE_CONDITIONS.contains(&known.kind.as_str()));
    for (life, recipe) in mains {
        if !life.resizing(recipe.container) {
            continue;
        }
        let pending = match script.part(&recipe.container.name).resize {
            Resize::Accept => condition("PodResizeInProgress", true, None, None),
            Resize::Deferred => condition("PodResizePending", true, Some("Deferred"), None),
            Resize::Infeasible => condition("PodResizePending", true, Some("Infeasible"), None),
        };
        set(status, pending, now);
    }
}

fn condition(kind: &str, holds: bool, reason: Option<&str>, message: Option<String>) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.map(str::to_owned),
        message,
        last_transition_time: None,
    }
}

/// Puts a condition in; its time moves only with its status, or when another writer left it empty.
fn set(status: &mut Status, mut wanted: Condition, now: Timestamp) {
    let known = status.conditions.iter_mut().find(|known| known.kind == wanted.kind);
    let before = known
        .as_ref()
        .filter(|known| known.status == wanted.status)
        .and_then(|known| known.last_transition_time);
    wanted.last_transition_time = Some(before.unwrap_or_else(|| seconds(now)));
    match known {
        Some(known) => *known = wanted,
        None => status.conditions.push(wanted),
    }
}

/// The strategic merge patch that makes `wanted` of `read`, or nothing when they agree.
pub(super) fn difference(uid: &str, read: &Status, wanted: &Status) -> Option<Value> {
    let mut patch = Map::new();
    let mut put = |name: &str, value: Value| drop(patch.insert(name.to_owned(), value));
    if read.phase != wanted.phase {
        put("phase", json!(wanted.phase));
    }
    if read.reason != wanted.reason {
        put("reason", json!(wanted.reason));
    }
    if read.message != wanted.message {
        put("message", json!(wanted.message));
    }
    if read.observed_generation != wanted.observed_generation {
        put("observedGeneration", json!(wanted.observed_generation));
    }
    if read.start_time != wanted.start_time {
        put("startTime", json!(wanted.start_time));
    }
    if read.host_ip != wanted.host_ip {
        put("hostIP", json!(wanted.host_ip));
        put("hostIPs", json!([{ "ip": wanted.host_ip }]));
    }
    if read.pod_ip != wanted.pod_ip {
        put("podIP", json!(wanted.pod_ip));
        put("podIPs", json!([{ "ip": wanted.pod_ip }]));
    }
    let conditions = condition_changes(read, wanted);
    if !conditions.is_empty() {
        put("conditions", Value::Array(conditions));
    }
    for (name, before, after) in [
        (
            "initContainerStatuses",
            &read.init_container_statuses,
            &wanted.init_container_statuses,
        ),
        (
            "containerStatuses",
            &read.container_statuses,
            &wanted.container_statuses,
        ),
        (
            "ephemeralContainerStatuses",
            &read.ephemeral_container_statuses,
            &wanted.ephemeral_container_statuses,
        ),
    ] {
        if before != after {
            put(name, json!(after));
        }
    }
    // The uid makes the server refuse the patch when a Pod of the same name has taken the place.
    (!patch.is_empty()).then(|| json!({ "metadata": { "uid": uid }, "status": patch }))
}

fn condition_changes(read: &Status, wanted: &Status) -> Vec<Value> {
    let gone = read
        .conditions
        .iter()
        .filter(|known| wanted.condition(&known.kind).is_none());
    let gone = gone.map(|known| json!({ "$patch": "delete", "type": known.kind }));
    let changed = wanted
        .conditions
        .iter()
        .filter(|condition| read.condition(&condition.kind) != Some(condition));
    let changed = changed.map(|condition| {
        let mut value = json!({
            "type": condition.kind,
            "status": condition.status,
            "lastTransitionTime": condition.last_transition_time,
        });
        let before = read.condition(&condition.kind);
        for (name, text, known) in [
            (
                "reason",
                &condition.reason,
                before.and_then(|before| before.reason.as_ref()),
            ),
            (
                "message",
                &condition.message,
                before.and_then(|before| before.message.as_ref()),
            ),
        ] {
            // A null takes an old text away; without an old text it would be noise.
            if text.is_some() || known.is_some() {
                value[name] = json!(text);
            }
        }
        value
    });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests;
