//! Pulling images onto the nodes ahead of an update (gate `PreDownloadImageForDaemonSetUpdate`).
//!
//! While a rollout is under way, jobs pull the images of the update revision; when it is over, the jobs go. Whether it is worth it is decided once per revision
//! (see [`crate::shared::predownload`]): not for the first one, not when all Pods may be updated at once, and not when users update Pods themselves. Two
//! annotations of the set say how many nodes pull at the same time, and for how long.

use kruise_api::gates::Gate;
use kruise_api::names::annotation;
use kruise_api::revision::ControllerRevision;
use kruise_api::shared::IntOrPercent;

use super::counts::rolling;
use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::shared::predownload::{self, Rollout};
use crate::shared::scaled_value::scaled_value;

/// Plans jobs that pull images, or their end.
pub(super) fn pre_download(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if !snapshot.env.gates.enabled(Gate::PreDownloadImageForDaemonSetUpdate) {
        return;
    }
    let status = snapshot.set.status.as_ref();
    let is_over = status.is_some_and(|status| {
        status.updated_number_scheduled == status.desired_number_scheduled && status.update_revision == snapshot.hash
    });
    if is_over {
        predownload::clean_up(&snapshot.observed.pull_jobs, &snapshot.uid, plan);
    } else if snapshot.revisions.is_stored() {
        // The decision is noted on the revision, so the revision has to be there.
        pull(
            snapshot,
            status.map_or(0, |status| status.desired_number_scheduled),
            plan,
        );
    }
}

fn pull(snapshot: &Snapshot<'_>, nodes: i32, plan: &mut Plan) {
    let update = snapshot.revisions.update.object();
    let old: Vec<&ControllerRevision> = snapshot
        .revisions
        .known
        .iter()
        .copied()
        .filter(|revision| revision.name() != update.name())
        .collect();
    let rolling = rolling(&snapshot.set.spec);
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let unavailable = scaled_value(
        unavailable.unwrap_or(&IntOrPercent::Int(1)),
        nodes,
        IntOrPercent::ceil_of,
    );
    let number = |key: &str| -> Option<i32> {
        let annotations = snapshot.set.metadata.annotations.as_ref()?;
        annotations.get(key)?.parse().ok()
    };
    let parallelism = number(annotation::PRE_DOWNLOAD_PARALLELISM).map(IntOrPercent::Int);
    let rollout = Rollout {
        owner: &snapshot.owner,
        namespace: snapshot.namespace(),
        selector: &snapshot.set.spec.selector,
        old: &old,
        update,
        stays_on_nodes: rolling.is_some() && !old.is_empty(),
        few: 0,
        replicas: nodes,
        partition: snapshot.desired.partition,
        max_unavailable: i32::try_from(unavailable).unwrap_or(i32::MAX),
        updated_ready: 0,
        min_updated_ready: 0,
        parallelism: parallelism.as_ref(),
        timeout_seconds: number(annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS),
    };
    predownload::pre_download(&rollout, &snapshot.observed.pull_jobs, plan);
}
