//! Which revisions are a workload's, and which of them are no longer needed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::meta::Uid;
use kruise_api::revision::ControllerRevision;

use super::is_same;
use crate::shared::selector;

/// The revisions of a workload, the oldest first: those that its selector chooses and that are its own or nobody's.
pub fn belonging<'a>(
    revisions: impl IntoIterator<Item = &'a ControllerRevision>,
    chosen_by: &LabelSelector,
    owner: &Uid,
) -> Vec<&'a ControllerRevision> {
    let is_ours = |revision: &&ControllerRevision| {
        revision
            .metadata
            .controller()
            .is_none_or(|controller| controller.uid == *owner)
            && selector::matches(chosen_by, |key| revision.metadata.label(key))
    };
    let mut ours: Vec<_> = revisions.into_iter().filter(is_ours).collect();
    ours.sort_by(|one, other| {
        let age = |revision: &ControllerRevision| (revision.revision, revision.metadata.creation_timestamp);
        age(one).cmp(&age(other)).then_with(|| one.name().cmp(other.name()))
    });
    ours
}

/// The revisions to remove, the oldest first. `live` are the names or hashes of the current and the update revision and of those that Pods are at.
pub fn superfluous<'a, 'n>(
    revisions: &[&'a ControllerRevision],
    live: impl IntoIterator<Item = &'n str>,
    limit: i32,
) -> Vec<&'a ControllerRevision> {
    let live: Vec<&str> = live.into_iter().filter(|name| !name.is_empty()).collect();
    let is_live = |revision: &ControllerRevision| live.iter().any(|name| is_same(revision.name(), name));
    let idle: Vec<_> = revisions
        .iter()
        .copied()
        .filter(|revision| !is_live(revision))
        .collect();
    let keep = usize::try_from(limit).unwrap_or_default();
    let count = idle.len().saturating_sub(keep);
    idle.into_iter().take(count).collect()
}
