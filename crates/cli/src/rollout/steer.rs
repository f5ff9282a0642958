//! Steering a rollout: pause it, go on, start all Pods anew, let more Pods be updated.
//!
//! - `pause` and `resume` set the field of the kind: of a CloneSet it is in another place in v1alpha1 than in v1beta1.
//! - `restart` changes the template, so that the controller replaces all Pods within the budget of the workload: of ours by the variable `RESTARTED_AT` in every container, of
//!   Kubernetes' own by the annotation that kubectl writes.
//! - `promote` lowers the partition. A step doubles the Pods that may be updated, and is one Pod at least; `--by` says how many, `--full` means all. A partition that is a
//!   percentage stays one.

use super::status::kept;
use crate::{
    change::{Decision, set},
    kinds::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET},
    server::Object,
};
use anyhow::{Result, bail};
use kruise_api::{
    cloneset, daemonset,
    names::{annotation, group},
    shared::IntOrPercent,
    sidecarset, statefulset, uniteddeployment,
};
use serde_json::{Map, Value, json};

/// The variable whose change makes Pods anew.
const RESTARTED_AT: &str = "RESTARTED_AT";

const OF_SPEC: &[&str] = &["spec"];
const OF_STRATEGY: &[&str] = &["spec", "updateStrategy"];
const OF_ROLLING: &[&str] = &["spec", "updateStrategy", "rollingUpdate"];

/// Where an object has the steps of its rolling update; nothing when it has none.
fn strategy(object: &Object) -> Option<&'static [&'static str]> {
    let kind = object.kind;
    if kind.is(&cloneset::KIND) {
        let is_old = object.version == group::V1ALPHA1;
        return Some(if is_old { OF_STRATEGY } else { OF_ROLLING });
    }
    if kind.is(&sidecarset::KIND) {
        return Some(OF_STRATEGY);
    }
    let has = kind.is(&statefulset::KIND) || kind.is(&daemonset::KIND);
    has.then_some(OF_ROLLING)
}

fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, field| &value[*field])
}

fn is_paused(object: &Object) -> bool {
    let place = strategy(object).unwrap_or(OF_SPEC);
    at(&object.value, place)["paused"] == true
}

/// Pauses the rollout of an object, or lets it go on.
///
/// # Errors
/// When it is so already, or its kind cannot be paused.
pub(crate) fn pause(object: &Object, wanted: bool) -> Result<Decision> {
    let place = if object.kind == DEPLOYMENT {
        Some(OF_SPEC)
    } else {
        strategy(object)
    };
    let name = object.quoted();
    let Some(place) = place else {
        bail!(
            "{name} {} is not supported",
            if wanted { "pausing" } else { "resuming" }
        );
    };
    if wanted && at(&object.value, OF_STRATEGY)["type"] == "OnDelete" {
        bail!("{name} pausing is not supported with type OnDelete: nothing is updated before it is deleted");
    }
    match (is_paused(object), wanted) {
        (true, true) => bail!("{name} is already paused"),
        (false, false) => bail!("{name} is not paused"),
        _ => {}
    }
    let mut after = object.value.clone();
    if wanted {
        let path: Vec<&str> = place.iter().copied().chain(["paused"]).collect();
        set(&mut after, &path, json!(true));
    } else if let Some(fields) = after.pointer_mut(&pointer(place)).and_then(Value::as_object_mut) {
        fields.remove("paused");
    }
    Ok(Decision::Become(after))
}

fn pointer(path: &[&str]) -> String {
    path.iter().map(|field| format!("/{field}")).collect()
}

/// Makes the controller replace all Pods. `now` is told in the template.
///
/// # Errors
/// When the kind cannot do that, or the workload never replaces Pods.
pub(crate) fn restart(object: &Object, now: &str) -> Result<Decision> {
    let kind = object.kind;
    let mut after = object.value.clone();
    if kind.is(&cloneset::KIND) || kind.is(&statefulset::KIND) || kind.is(&daemonset::KIND) {
        let newest = object.newest();
        if at(&newest, OF_ROLLING)["podUpdatePolicy"] == "InPlaceOnly" {
            bail!(
                "{} never replaces Pods (InPlaceOnly); restart their containers: kubectl kruise restart pod/NAME",
                object.quoted()
            );
        }
        let containers = after
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            put_variable(container, RESTARTED_AT, now);
        }
    } else if [DEPLOYMENT, STATEFUL_SET, DAEMON_SET].contains(&kind) {
        if kind == DEPLOYMENT && is_paused(object) {
            bail!(
                "{} can't restart paused deployment (run rollout resume first)",
                object.quoted()
            );
        }
        let path = [
            "spec",
            "template",
            "metadata",
            "annotations",
            annotation::RESTARTED_AT_BUILT_IN,
        ];
        set(&mut after, &path, json!(now));
    } else {
        bail!("{} restarting is not supported", object.quoted());
    }
    Ok(Decision::Become(after))
}

/// Sets a variable of a container where it is, or at the end.
pub(crate) fn put_variable(container: &mut Value, name: &str, value: &str) {
    if !container["env"].is_array() {
        container["env"] = json!([]);
    }
    let variable = json!({"name": name, "value": value});
    if let Some(variables) = container["env"].as_array_mut() {
        match variables.iter_mut().find(|known| known["name"] == name) {
            Some(known) => *known = variable,
            None => variables.push(variable),
        }
    }
}

/// How far to let a rollout go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Twice as many Pods as now.
    Double,
    /// So many more Pods, as a number or a percentage.
    By(IntOrPercent),
    /// All Pods.
    Full,
}

/// A rollout that is let go further, and what to say about it.
#[derive(Debug)]
pub(crate) struct Promotion {
    pub(crate) decision: Decision,
    pub(crate) done: String,
}

/// Lowers the partition of an object.
///
/// # Errors
/// When it has none, or stands still for another reason.
pub(crate) fn promote(object: &Object, step: &Step) -> Result<Promotion> {
    if object.kind.is(&uniteddeployment::KIND) {
        return Ok(promote_subsets(object, step));
    }
    let place = if object.kind == STATEFUL_SET {
        Some(OF_ROLLING)
    } else {
        strategy(object)
    };
    let Some(place) = place else {
        bail!("{} promoting is not supported: it has no partition", object.quoted());
    };
    refuse_standing(object)?;
    let before = at(&object.value, place)["partition"].clone();
    let total = total(object);
    let old = kept(Some(&before), total);
    if old == 0 {
        return Ok(Promotion {
            decision: Decision::Stay("is fully promoted already".to_owned()),
            done: String::new(),
        });
    }
    let left = after_step(old, total, step);
    let partition = if before.is_string() {
        json!(percent(left, total))
    } else {
        json!(left)
    };
    let mut after = object.value.clone();
    let path: Vec<&str> = place.iter().copied().chain(["partition"]).collect();
    set(&mut after, &path, partition.clone());
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(Promotion {
        decision: Decision::Become(after),
        done: format!(
            "promoted (partition {} -> {}, {} of {total} may be updated)",
            shown(&before),
            shown(&partition),
            total - kept(Some(&partition), total)
        ),
    })
}

fn refuse_standing(object: &Object) -> Result<()> {
    if is_paused(object) {
        bail!("{} is paused (run rollout resume first)", object.quoted());
    }
    let type_ = &at(&object.value, OF_STRATEGY)["type"];
    if type_ == "OnDelete" || type_ == "NotUpdate" {
        bail!(
            "{} promoting is not supported with type {}",
            object.quoted(),
            type_.as_str().unwrap_or_default()
        );
    }
    Ok(())
}

/// What the partition is a part of.
fn total(object: &Object) -> i64 {
    let path = if object.kind.is(&daemonset::KIND) {
        "/status/desiredNumberScheduled"
    } else if object.kind.is(&sidecarset::KIND) {
        "/status/matchedPods"
    } else {
        return object
            .value
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(1)
            .max(0);
    };
    object
        .value
        .pointer(path)
        .and_then(Value::as_i64)
        .unwrap_or_default()
        .max(0)
}

/// How many Pods stay old after a step; fewer than before.
fn after_step(old: i64, total: i64, step: &Step) -> i64 {
    let more = match step {
        Step::Full => return 0,
        Step::Double => total - old,
        Step::By(count) => {
            let total = i32::try_from(total).unwrap_or(i32::MAX);
            i64::from(count.ceil_of(total).unwrap_or(1))
        }
    };
    (old - more.max(1)).max(0)
}

/// The highest percentage that keeps no more than so many.
fn percent(left: i64, total: i64) -> String {
    let share = if total > 0 { left * 100 / total } else { 0 };
    format!("{share}%")
}

/// Each subset has a partition of its own.
fn promote_subsets(object: &Object, step: &Step) -> Promotion {
    let path = ["spec", "updateStrategy", "manualUpdate", "partitions"];
    let partitions = at(&object.value, &path).as_object().cloned().unwrap_or_default();
    let counts = object.newest();
    let subsets = counts.pointer("/status/subsetStatuses").and_then(Value::as_array);
    let replicas = |name: &str| {
        let mut subsets = subsets.into_iter().flatten();
        let found = subsets.find(|subset| subset["name"] == name);
        found.and_then(|subset| subset["replicas"].as_i64()).unwrap_or_default()
    };
    let mut after = partitions.clone();
    for (name, partition) in &partitions {
        let old = partition.as_i64().unwrap_or_default();
        if old > 0 {
            after[name] = json!(after_step(old, replicas(name).max(old), step));
        }
    }
    if after == partitions {
        return Promotion {
            decision: Decision::Stay("is fully promoted already".to_owned()),
            done: String::new(),
        };
    }
    let text = |partitions: &Map<String, Value>| {
        let one = |(name, count): (&String, &Value)| format!("{name}={count}");
        partitions.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let done = format!("promoted (partitions {} -> {})", text(&partitions), text(&after));
    let mut whole = object.value.clone();
    set(&mut whole, &path, after.into());
    Promotion {
        decision: Decision::Become(whole),
        done,
    }
}

#[cfg(test)]
mod tests;
