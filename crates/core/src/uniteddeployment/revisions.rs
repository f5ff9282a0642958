//! The revisions of the template (see [`crate::shared::revision`]).
//!
//! - A revision keeps `spec.template` as a whole, whatever kind of workload it is for.
//! - It has the labels of the template and those that the selector asks for. Those that the original made lack them; they are found by their owner.
//! - A template that says the same as one that has a revision gets that one. Otherwise a change in how things are written would restart all Pods.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::names::event;
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;
use serde_json::Value;

use super::Observed;
use super::child::Existing;
use super::snapshot::Snapshot;
use super::template::Template;
use crate::plan::{Event, Plan};
use crate::shared::owner::Owner;
use crate::shared::revision::{Candidate, History, Revisions};

const HISTORY_LIMIT: i32 = 10;

/// Finds the revisions, or makes what is missing.
pub(super) fn of<'a>(observed: &'a Observed, owner: &Owner, template: &Template) -> Result<Revisions<'a>, String> {
    let united = &*observed.united;
    let status = united.status.as_ref();
    let namespace = united.metadata.namespace.as_deref().unwrap_or_default();
    let candidate = Candidate::of_workload_template(&template.whole, labels(united, template), owner, namespace);
    let history = History {
        seen: &observed.revisions,
        // Whoever looked for them has chosen already.
        selector: &LabelSelector::default(),
        current: status.map_or("", |status| &status.current_revision),
        collisions: status.and_then(|status| status.collision_count).unwrap_or_default(),
    };
    Revisions::with_candidate(&candidate, &history)
}

fn labels(united: &UnitedDeployment, template: &Template) -> BTreeMap<String, String> {
    let own = template.pairs("labels").into_iter();
    let own = own.filter_map(|(key, value)| match value {
        Value::String(value) => Some((key, value)),
        _ => None,
    });
    let chosen = united.spec.selector.match_labels.clone().unwrap_or_default();
    own.chain(chosen).collect()
}

/// Stores the revision of the template before any workload is made from it.
pub(super) fn store(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    snapshot.revisions.store(plan);
    let writes = plan.actions.iter_mut().flat_map(|step| &mut step.chains);
    for write in writes.flat_map(|chain| &mut chain.writes) {
        let failed = Event::warning(event::FAILED_REVISION_PROVISION, "Failed to store the revision");
        write.failed = Some(failed);
    }
    if snapshot.observed.is_confirmed {
        snapshot.revisions.adopt(snapshot.owner, plan);
    }
}

/// Removes what is beyond the history limit, but nothing that a workload was made from.
pub(super) fn truncate(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let limit = snapshot.united.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
    let in_use = snapshot.claims.children.values().map(Existing::revision);
    snapshot.revisions.truncate(in_use, limit, plan);
}
