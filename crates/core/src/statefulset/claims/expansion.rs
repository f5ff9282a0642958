//! Claims that grow with their template.
//!
//! - A claim *is compatible* with its template when class and access modes are the same and it asks for as much storage or more; it is *ready* when the volume
//!   has what the claim asks for. Claims never shrink: one that asks for more than its template is compatible.
//! - Growing claims is part of the rolling update: an ordinal's claims are asked to grow when its turn has come, and its Pod is left alone until they have.
//!   Where the file system grows only with the next start of the Pod, the Pod's own update is that start, so it is not waited for.
//! - A claim cannot grow when anything but its size differs, or when its class is not there or does not allow it. That is said, and not tried.

use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::names::{annotation, event};
use kruise_api::resource::Preconditions;
use kruise_api::statefulset::v1beta1::{StatefulSet, VolumeClaimStatus};
use kruise_api::storage::PersistentVolumeClaim;
use serde_json::{Value, json};

use super::Claims;
use crate::plan::{Action, Event, PodNames, Target, Write, why};
use crate::shared::quantity;

/// The condition of a claim whose volume has grown, and whose file system has not.
const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
/// Conditions of a claim whose volume, or whose file system, could not be made bigger. Its storage tries again.
const RESIZE_ERRORS: [&str; 2] = ["ControllerResizeError", "NodeResizeError"];
const BOUND: &str = "Bound";

/// A claim template, as far as claims are compared with it.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) name: String,
    /// The claim it makes, but for its name.
    pub(super) object: Arc<Value>,
    class: Option<String>,
    access_modes: Vec<String>,
    resources: Value,
    request: i128,
}

impl Template {
    pub(super) fn of(set: &StatefulSet, template: &Value) -> Option<Self> {
        let name = template.pointer("/metadata/name")?.as_str()?.to_owned();
        let spec = |path: &str| template.pointer(&format!("/spec/{path}"));
        let modes = spec("accessModes").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            name,
            object: super::object(set, template),
            class: spec("storageClassName").and_then(Value::as_str).map(str::to_owned),
            access_modes: modes.filter_map(Value::as_str).map(str::to_owned).collect(),
            resources: spec("resources").cloned().unwrap_or_default(),
            request: spec("resources/requests/storage")
                .and_then(quantity::of_value)
                .unwrap_or_default(),
        })
    }

    /// Nothing but the size differs.
    fn is_alike(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = claim.spec.storage_class_name.as_deref().zip(self.class.as_deref());
        let modes = claim.spec.access_modes.iter().map(|mode| &**mode);
        class.is_none_or(|(one, other)| one == other) && modes.eq(self.access_modes.iter().map(String::as_str))
    }

    fn is_compatible(&self, claim: &PersistentVolumeClaim) -> bool {
        self.is_alike(claim) && amount(claim.requested()) >= self.request
    }

    fn is_ready(&self, claim: &PersistentVolumeClaim) -> bool {
        self.is_alike(claim) && amount(claim.capacity()) >= amount(claim.requested())
    }

    fn is_completed(&self, claim: &PersistentVolumeClaim) -> bool {
        self.is_compatible(claim) && (self.is_ready(claim) || needs_restart(claim))
    }
}

fn amount(text: &str) -> i128 {
    quantity::nanos(text).unwrap_or_default()
}

fn needs_restart(claim: &PersistentVolumeClaim) -> bool {
    claim.condition(FILE_SYSTEM_RESIZE_PENDING).is_some()
}

/// What becomes of the claims of an ordinal whose turn has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion {
    /// They are as the templates want them: the Pod's turn.
    Completed,
    /// They grow; the Pod is left alone meanwhile.
    Growing(Vec<Write>),
    /// One of them cannot.
    Refused {
        /// Why.
        why: why::Claims,
        /// What users are told.
        event: Event,
    },
}

impl Claims<'_> {
    /// True when the claims of an ordinal ask for what their templates want; always, where claims do not follow them.
    pub fn are_compatible(&self, ordinal: i32) -> bool {
        !self.expands
            || self
                .living(ordinal)
                .all(|(template, claim)| template.is_compatible(claim))
    }

    /// True when the volumes of an ordinal are as big as its claims want; always, where claims do not follow their templates.
    pub fn are_ready(&self, ordinal: i32) -> bool {
        !self.expands || self.living(ordinal).all(|(template, claim)| template.is_ready(claim))
    }

    /// Returns what to do about the claims of an ordinal whose turn has come.
    pub fn expand(&self, ordinal: i32) -> Expansion {
        if !self.expands {
            return Expansion::Completed;
        }
        let mut writes = Vec::new();
        let mut completed = true;
        for (template, claim) in self.living(ordinal) {
            completed &= template.is_completed(claim);
            if template.is_compatible(claim) {
                continue;
            }
            if let Err((reason, message)) = self.may_grow(template, claim) {
                return self.refused(claim, ordinal, reason, message);
            }
            writes.push(self.grow(template, claim, ordinal));
        }
        if completed {
            Expansion::Completed
        } else {
            Expansion::Growing(writes)
        }
    }

    fn may_grow(&self, template: &Template, claim: &PersistentVolumeClaim) -> Result<(), (&'static str, String)> {
        if !template.is_alike(claim) {
            let message = format!("it differs from template {} in more than its size", template.name);
            return Err((event::FAILED_UPDATE_PVC, message));
        }
        let Some(name) = claim.spec.storage_class_name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        match self.classes.get(name) {
            Some(class) if class.allow_volume_expansion => Ok(()),
            Some(_) => Err((
                event::FAILED_RESIZE,
                format!("storage class {name} does not allow volumes to grow"),
            )),
            None => Err((event::FAILED_RESIZE, format!("storage class {name} does not exist"))),
        }
    }

    fn refused(&self, claim: &PersistentVolumeClaim, ordinal: i32, reason: &'static str, message: String) -> Expansion {
        let claim = claim.metadata.name.to_string();
        let set = &self.owner.name;
        let text = format!("resize Claim {claim} for Pod {set}-{ordinal} in StatefulSet {set} failed error: {message}");
        Expansion::Refused {
            why: why::Claims::ClaimNotExpandable { claim, message },
            event: Event::warning(reason, text),
        }
    }

    fn grow(&self, template: &Template, claim: &PersistentVolumeClaim, ordinal: i32) -> Write {
        let set = &self.owner.name;
        let patch = json!({
            "metadata": { "annotations": { annotation::CLAIM_OWNED_BY_STATEFUL_SET: set } },
            "spec": { "resources": template.resources },
        });
        let target = Target::of_kind(PersistentVolumeClaim::RESOURCE, claim);
        let action = Action::patch(target, None, patch, Preconditions::unchanged(claim));
        let name = &claim.metadata.name;
        Write::from(action)
            .then(Event::normal(
                event::SUCCESSFUL_RESIZE,
                format!("resize Claim {name} Pod {set}-{ordinal} in StatefulSet {set} success"),
            ))
            .or_else(Event::warning(
                event::FAILED_RESIZE,
                format!("resize Claim {name} for Pod {set}-{ordinal} in StatefulSet {set} failed error"),
            ))
    }

    /// Returns how far the claims of these ordinals follow their templates, whether they are made to or not.
    pub fn status(&self, ordinals: &[i32]) -> Vec<VolumeClaimStatus> {
        let of_template = |template: &Template| {
            let names = ordinals.iter().map(|ordinal| self.name(template, *ordinal));
            let claims = names.filter_map(|name| self.by_name.get(&*name).copied());
            let claims = claims.filter(|claim| !claim.metadata.is_deleting());
            let mut status = VolumeClaimStatus {
                volume_claim_name: template.name.clone(),
                ..VolumeClaimStatus::default()
            };
            for claim in claims.filter(|claim| template.is_compatible(claim)) {
                status.compatible_replicas += 1;
                status.compatible_ready_replicas += i32::from(template.is_ready(claim));
            }
            status
        };
        self.templates.iter().map(of_template).collect()
    }

    /// Returns the claims of these ordinals that could not be made bigger, each with what its storage says.
    pub fn failed_to_grow(&self, ordinals: impl IntoIterator<Item = i32>) -> Vec<(i32, why::Claims)> {
        let mut failed = Vec::new();
        for ordinal in ordinals {
            for (template, claim) in self.living(ordinal).filter(|_| self.expands) {
                let error = RESIZE_ERRORS.into_iter().find_map(|error| claim.condition(error));
                if let Some(error) = error.filter(|_| !template.is_ready(claim)) {
                    let why = why::Claims::ClaimNotExpandable {
                        claim: claim.metadata.name.to_string(),
                        message: format!("its volume could not be made bigger: {}", error.message),
                    };
                    failed.push((ordinal, why));
                }
            }
        }
        failed
    }

    /// Returns what holds up the claims of these ordinals.
    pub fn explain(&self, ordinals: impl IntoIterator<Item = i32>) -> Vec<why::Claims> {
        let [mut not_bound, mut growing, mut need_restart] = [(); 3].map(|()| PodNames::default());
        for ordinal in ordinals {
            for (template, claim) in self.living(ordinal) {
                let name = &claim.metadata.name;
                if claim.status.phase != BOUND {
                    not_bound.push(name);
                } else if needs_restart(claim) {
                    need_restart.push(name);
                } else if self.expands && !template.is_ready(claim) && template.is_alike(claim) {
                    growing.push(name);
                }
            }
        }
        let all = [
            (
                not_bound,
                (|claims| why::Claims::ClaimsNotBound { claims }) as fn(PodNames) -> why::Claims,
            ),
            (growing, |claims| why::Claims::ClaimsGrowing { claims }),
            (need_restart, |claims| why::Claims::ClaimsNeedRestart { claims }),
        ];
        let found = all.into_iter().filter(|(claims, _)| !claims.is_empty());
        found.map(|(claims, why)| why(claims)).collect()
    }
}
