//! Pulling images onto the nodes ahead of an update (gate `PreDownloadImageForInPlaceUpdate`).
//!
//! While a rollout is under way, jobs pull the images of the update revision; when it is over, the jobs go. Whether it
//! is worth it is decided once per revision (see [`crate::shared::predownload`]): for more than three replicas, if the change can be made in place.

use kruise_api::gates::Gate;
use kruise_api::names::annotation;
use kruise_api::shared::in_place::{InPlaceUpdateStrategy, PodUpdatePolicy};
use kruise_api::shared::int_or_percent::Percent;

use super::counts;
use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::shared::inplace::{self, Options};
use crate::shared::pod_update::is_in_place;
use crate::shared::predownload::{self, Rollout};

/// Replicas up to which a rollout is over before images would be there.
const FEW: i32 = 3;

/// Plans jobs that pull images, or their end.
pub(super) fn pre_download(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let env = snapshot.env;
    let is_on = env.gates.enabled(Gate::PreDownloadImageForInPlaceUpdate) && env.settings.image_pull_jobs;
    if is_on && predownload::is_due(&snapshot.revisions, &snapshot.observed.pull_jobs, &snapshot.uid, plan) {
        pull(snapshot, plan);
    }
}

fn pull(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let spec = &snapshot.set.spec;
    let update = snapshot.revisions.update.object();
    let current = snapshot.revisions.current.object();
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let policy = rolling.map(|rolling| &rolling.pod_update_policy);
    let none = InPlaceUpdateStrategy::default();
    let strategy = rolling
        .and_then(|rolling| rolling.in_place_update_strategy.as_ref())
        .unwrap_or(&none);
    let options = Options {
        gates: snapshot.env.gates,
        ignore_claims: policy == Some(&PodUpdatePolicy::InPlaceOnly),
        grace_seconds: 0,
    };
    let status = snapshot
        .set
        .status
        .as_ref()
        .filter(|status| status.update_revision == update.name());
    let rollout = Rollout {
        owner: &snapshot.owner,
        namespace: snapshot.namespace(),
        selector: &spec.selector,
        old: &[current],
        update,
        stays_on_nodes: policy.is_some_and(is_in_place) && inplace::decide(current, update, &options).is_ok(),
        few: FEW,
        replicas: snapshot.desired.replicas as i32,
        partition: snapshot.desired.partition as i32,
        max_unavailable: counts::unavailable_rounded_down(spec) as i32,
        updated_ready: status.map_or(0, |status| status.updated_ready_replicas),
        min_updated_ready: min_updated_ready(snapshot, strategy),
        parallelism: strategy.image_pre_download_parallelism.as_ref(),
        timeout_seconds: strategy.image_pre_download_timeout_seconds,
    };
    predownload::pre_download(&rollout, &snapshot.observed.pull_jobs, plan);
}

/// Updated Pods that have to be ready first. The field has no percentages; the annotation of v1alpha1, which stays on the object, has.
fn min_updated_ready(snapshot: &Snapshot<'_>, strategy: &InPlaceUpdateStrategy) -> i32 {
    let annotations = snapshot.set.metadata.annotations.as_ref();
    let percentage = || {
        let text = annotations?.get(annotation::PRE_DOWNLOAD_MIN_UPDATED_READY)?;
        Some(Percent::parse(text).ok()?.ceil_of(snapshot.desired.replicas as i32))
    };
    let field = strategy.image_pre_download_min_updated_ready_pods;
    field.or_else(percentage).unwrap_or(0)
}
