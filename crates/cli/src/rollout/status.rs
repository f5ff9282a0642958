//! How far a rollout is, in the words of kubectl and of the plugin that people know.
//!
//! In this order: the controller has seen the last change; enough Pods are updated; the updated ones are ready or available; old Pods that are too many are gone. Only then
//! it is complete. Enough are all but those that the partition keeps: a percentage is rounded up, but below 100% lets at least one Pod be updated.

use crate::server::Object;
use anyhow::{Result, bail};
use kruise_api::{
    cloneset, daemonset,
    names::{annotation, condition},
    shared::IntOrPercent,
    sidecarset, statefulset, uniteddeployment,
};
use serde_json::Value;

/// How far a rollout is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// A line for people and scripts.
    pub(crate) line: String,
    pub(crate) is_done: bool,
    /// How many Pods are as they should be, and how many should be.
    pub(crate) ready: i64,
    pub(crate) wanted: i64,
}

/// Returns how far the rollout of an object is. `revision` is what a Deployment is expected to be at; 0 for any.
///
/// # Errors
/// When its kind has no rollout, or when the rollout has failed.
pub(crate) fn status(object: &Object, revision: i64) -> Result<Status> {
    let value = object.newest();
    let kind = object.kind;
    let of = Rollout {
        value: &value,
        name: object.name(),
    };
    if kind.is(&cloneset::KIND) {
        of.cloneset()
    } else if kind.is(&statefulset::KIND) {
        of.advanced_statefulset()
    } else if kind.is(&daemonset::KIND) || kind == crate::kinds::DAEMON_SET {
        of.daemonset()
    } else if kind.is(&uniteddeployment::KIND) {
        Ok(of.uniteddeployment())
    } else if kind.is(&sidecarset::KIND) {
        of.sidecarset()
    } else if kind == crate::kinds::DEPLOYMENT {
        of.deployment(revision)
    } else if kind == crate::kinds::STATEFUL_SET {
        of.statefulset()
    } else {
        bail!("no status viewer has been implemented for {}", kind.full())
    }
}

/// Pods that a partition keeps at the old revision.
pub(crate) fn kept(partition: Option<&Value>, replicas: i64) -> i64 {
    let total = i32::try_from(replicas).unwrap_or(i32::MAX);
    let partition = partition.and_then(|value| serde_json::from_value::<IntOrPercent>(value.clone()).ok());
    let Some(partition) = partition else { return 0 };
    let kept = i64::from(partition.ceil_of(total).unwrap_or(0));
    let says_all = match &partition {
        IntOrPercent::Int(_) => true,
        IntOrPercent::Text(text) => &**text == "100%",
    };
    let kept = if !says_all && replicas > 1 && kept == replicas {
        replicas - 1
    } else {
        kept
    };
    kept.clamp(0, replicas.max(0))
}

/// A count between nothing and so many.
fn within(count: i64, most: i64) -> i64 {
    count.min(most).max(0)
}

struct Rollout<'a> {
    value: &'a Value,
    name: &'a str,
}

impl Rollout<'_> {
    fn number(&self, path: &str) -> i64 {
        self.value.pointer(path).and_then(Value::as_i64).unwrap_or_default()
    }

    fn text(&self, path: &str) -> &str {
        self.value.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn status(&self, field: &str) -> i64 {
        self.number(&format!("/status/{field}"))
    }

    fn replicas(&self) -> i64 {
        self.value
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(1)
    }

    /// Whether the status is about an older spec.
    fn is_unseen(&self) -> bool {
        let observed = self.status("observedGeneration");
        observed == 0 || observed < self.number("/metadata/generation")
    }

    fn only_rolling(&self) -> Result<()> {
        match self.text("/spec/updateStrategy/type") {
            "" | "RollingUpdate" => Ok(()),
            _ => bail!("rollout status is only available for RollingUpdate strategy type"),
        }
    }

    /// A controller that gave up says so in a condition.
    fn within_deadline(&self, kind: &str) -> Result<()> {
        let conditions = self.value.pointer("/status/conditions").and_then(Value::as_array);
        let gave_up = |known: &Value| {
            known["type"] == condition::clone_set::PROGRESSING
                && known["reason"] == condition::clone_set::DEADLINE_EXCEEDED
        };
        if conditions.into_iter().flatten().any(gave_up) {
            bail!("{kind} {:?} exceeded its progress deadline", self.name);
        }
        Ok(())
    }

    fn cloneset(&self) -> Result<Status> {
        self.only_rolling()?;
        let strategy = "/spec/updateStrategy/rollingUpdate";
        let replicas = self.replicas();
        let wanted = replicas - kept(self.value.pointer(&format!("{strategy}/partition")), replicas);
        let pods = Pods {
            kind: "CloneSet",
            complete: "CloneSet",
            is_in_place: self.text(&format!("{strategy}/podUpdatePolicy")).starts_with("InPlace"),
            wanted,
            replicas,
            updated: self.status("updatedReplicas"),
            ready: self.status("updatedReadyReplicas"),
        };
        if !self.is_unseen() {
            self.within_deadline("cloneset")?;
        }
        Ok(self.pods(&pods))
    }

    fn advanced_statefulset(&self) -> Result<Status> {
        self.only_rolling()?;
        let replicas = self.replicas();
        let partition = self.number("/spec/updateStrategy/rollingUpdate/partition");
        let wanted = (replicas - partition).clamp(0, replicas.max(0));
        let updated = self.status("updatedReplicas");
        // v1alpha1 does not say how many of the updated ones are ready.
        let known = self
            .value
            .pointer("/status/updatedReadyReplicas")
            .and_then(Value::as_i64);
        let ready = known.unwrap_or_else(|| within(wanted - (replicas - self.status("readyReplicas")), updated));
        let pods = Pods {
            kind: "StatefulSet",
            complete: "Advanced StatefulSet",
            is_in_place: false,
            wanted,
            replicas,
            updated,
            ready,
        };
        Ok(self.pods(&pods))
    }

    fn uniteddeployment(&self) -> Status {
        let replicas = self.replicas();
        let partitions = self.value.pointer("/spec/updateStrategy/manualUpdate/partitions");
        let partitions = partitions.and_then(Value::as_object);
        let kept: i64 = partitions
            .into_iter()
            .flatten()
            .filter_map(|(_, count)| count.as_i64())
            .sum();
        let wanted = (replicas - kept).clamp(0, replicas.max(0));
        let updated = self.status("updatedReplicas");
        let missing = (replicas - self.status("readyReplicas")).max(0);
        let pods = Pods {
            kind: "UnitedDeployment",
            complete: "UnitedDeployment",
            is_in_place: false,
            wanted,
            replicas,
            updated,
            ready: within(wanted - missing, updated),
        };
        self.pods(&pods)
    }

    fn sidecarset(&self) -> Result<Status> {
        if self.text("/spec/updateStrategy/type") == "NotUpdate" {
            bail!("rollout status is only available for RollingUpdate strategy type");
        }
        let matched = self.status("matchedPods");
        let wanted = matched - kept(self.value.pointer("/spec/updateStrategy/partition"), matched);
        let pods = Pods {
            kind: "SidecarSet",
            complete: "SidecarSet",
            is_in_place: true,
            wanted,
            replicas: matched,
            updated: self.status("updatedPods"),
            ready: self.status("updatedReadyPods"),
        };
        Ok(self.pods(&pods))
    }

    /// The steps that all of ours have in common.
    fn pods(&self, pods: &Pods) -> Status {
        let Pods {
            wanted, updated, ready, ..
        } = *pods;
        let there = self.value.pointer("/status/replicas").and_then(Value::as_i64);
        let surplus = there.unwrap_or_default() - pods.replicas;
        let (line, is_done) = if self.is_unseen() {
            (
                format!("Waiting for {} spec update to be observed...", pods.kind),
                false,
            )
        } else if updated < wanted {
            (waiting(updated, wanted), false)
        } else if ready < wanted {
            (format!("Waiting for {} pods to be ready...", wanted - ready), false)
        } else if surplus > 0 {
            (format!("Waiting for {surplus} old pods to be gone..."), false)
        } else if pods.is_in_place || wanted < pods.replicas {
            (complete(updated), true)
        } else {
            let available = self.value.pointer("/status/availableReplicas").and_then(Value::as_i64);
            let line = format!(
                "{} rolling update complete {} pods at revision {}...",
                pods.complete,
                available.unwrap_or(ready),
                self.update_revision()
            );
            (line, true)
        };
        Status {
            line,
            is_done,
            ready: within(ready.min(updated), wanted),
            wanted: wanted.max(0),
        }
    }

    fn update_revision(&self) -> &str {
        match self.text("/status/updateRevision") {
            "" => self.text("/status/updatedRevision"),
            revision => revision,
        }
    }

    fn daemonset(&self) -> Result<Status> {
        self.only_rolling()?;
        let name = self.name;
        let desired = self.status("desiredNumberScheduled");
        let wanted = desired
            - kept(
                self.value.pointer("/spec/updateStrategy/rollingUpdate/partition"),
                desired,
            );
        let (updated, available) = (self.status("updatedNumberScheduled"), self.status("numberAvailable"));
        let (line, is_done) = if self.is_unseen() {
            ("Waiting for daemon set spec update to be observed...".to_owned(), false)
        } else if updated < wanted {
            (
                format!(
                    "Waiting for daemon set {name:?} rollout to finish: {updated} out of {wanted} new pods have been updated..."
                ),
                false,
            )
        } else if available < desired {
            (
                format!(
                    "Waiting for daemon set {name:?} rollout to finish: {available} of {desired} updated pods are available..."
                ),
                false,
            )
        } else if wanted < desired {
            (complete(updated), true)
        } else {
            (format!("daemon set {name:?} successfully rolled out"), true)
        };
        Ok(Status {
            line,
            is_done,
            ready: within(updated.min(available), wanted),
            wanted: wanted.max(0),
        })
    }

    fn deployment(&self, revision: i64) -> Result<Status> {
        if revision > 0 {
            let current = &self.value["metadata"]["annotations"][annotation::DEPLOYMENT_REVISION];
            let current = current
                .as_str()
                .and_then(|text| text.parse::<i64>().ok())
                .unwrap_or_default();
            if current != revision {
                bail!("desired revision ({revision}) is different from the running revision ({current})");
            }
        }
        let (name, replicas) = (self.name, self.replicas());
        let (updated, available) = (self.status("updatedReplicas"), self.status("availableReplicas"));
        let old = self.status("replicas") - updated;
        let line = if self.status("observedGeneration") < self.number("/metadata/generation") {
            "Waiting for deployment spec update to be observed...".to_owned()
        } else {
            self.within_deadline("deployment")?;
            let waits = |what: String| format!("Waiting for deployment {name:?} rollout to finish: {what}...");
            if updated < replicas {
                waits(format!("{updated} out of {replicas} new replicas have been updated"))
            } else if old > 0 {
                waits(format!("{old} old replicas are pending termination"))
            } else if available < updated {
                waits(format!("{available} of {updated} updated replicas are available"))
            } else {
                return Ok(Status {
                    line: format!("deployment {name:?} successfully rolled out"),
                    is_done: true,
                    ready: replicas.max(0),
                    wanted: replicas.max(0),
                });
            }
        };
        Ok(Status {
            line,
            is_done: false,
            ready: within(updated.min(available), replicas),
            wanted: replicas.max(0),
        })
    }

    fn statefulset(&self) -> Result<Status> {
        self.only_rolling()?;
        let replicas = self.replicas();
        let partition = self.number("/spec/updateStrategy/rollingUpdate/partition");
        let wanted = (replicas - partition).max(0);
        let (updated, ready) = (self.status("updatedReplicas"), self.status("readyReplicas"));
        let (current, update) = (
            self.text("/status/currentRevision"),
            self.text("/status/updateRevision"),
        );
        let (line, is_done) = if self.is_unseen() {
            (
                "Waiting for statefulset spec update to be observed...".to_owned(),
                false,
            )
        } else if ready < replicas {
            (format!("Waiting for {} pods to be ready...", replicas - ready), false)
        } else if partition > 0 {
            if updated < wanted {
                (waiting(updated, wanted), false)
            } else {
                (complete(updated), true)
            }
        } else if update == current {
            let count = self.status("currentReplicas");
            (
                format!("statefulset rolling update complete {count} pods at revision {current}..."),
                true,
            )
        } else {
            (
                format!("waiting for statefulset rolling update to complete {updated} pods at revision {update}..."),
                false,
            )
        };
        // Its counts are of other revisions when nothing is to be updated.
        let done = if is_done { wanted } else { updated.min(ready) };
        Ok(Status {
            line,
            is_done,
            ready: within(done, wanted),
            wanted,
        })
    }
}

/// The Pods of a workload of ours.
struct Pods {
    /// As it is called while the controller has not looked at it.
    kind: &'static str,
    /// As it is called in the end.
    complete: &'static str,
    is_in_place: bool,
    /// How many should be updated.
    wanted: i64,
    replicas: i64,
    updated: i64,
    /// How many updated ones are ready.
    ready: i64,
}

fn waiting(updated: i64, wanted: i64) -> String {
    format!("Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated...")
}

fn complete(updated: i64) -> String {
    format!("partitioned roll out complete: {updated} new pods have been updated...")
}

#[cfg(test)]
mod tests;
