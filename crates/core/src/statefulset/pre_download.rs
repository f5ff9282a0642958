//! Pulling images onto the nodes ahead of an update (gate `PreDownloadImageForInPlaceUpdate`).
//!
//! While a rollout is under way, jobs pull the images of the update revision; when it is over, the jobs go. Whether it is worth it is decided once per revision
//! (see [`crate::shared::predownload`]): for more than three replicas, if the change can be made in place. How many nodes pull at the same time, for how long,
//! and after how many updated Pods is said by annotations of the set.

use kruise_api::gates::Gate;
use kruise_api::names::annotation;
use kruise_api::shared::IntOrPercent;

use super::counts::{is_rolling, unavailable_rounded_down};
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
    let rolling = spec
        .update_strategy
        .rolling_update
        .as_ref()
        .filter(|_| is_rolling(spec));
    let options = Options {
        gates: snapshot.env.gates,
        ignore_claims: true,
        grace_seconds: 0,
    };
    let status = snapshot.set.status.as_ref();
    let status = status.filter(|status| status.update_revision == update.name());
    let annotations = snapshot.set.metadata.annotations.as_ref();
    let value_of = |key: &str| {
        annotations
            .and_then(|annotations| annotations.get(key))
            .map(String::as_str)
    };
    let number = |key: &str| value_of(key).and_then(|text| text.parse::<i32>().ok());
    let min_updated_ready = value_of(annotation::PRE_DOWNLOAD_MIN_UPDATED_READY).and_then(|text| {
        let value = text
            .parse()
            .map_or_else(|_| IntOrPercent::from(text), IntOrPercent::Int);
        value.ceil_of(snapshot.desired.replicas).ok()
    });
    let parallelism = number(annotation::PRE_DOWNLOAD_PARALLELISM).map(IntOrPercent::Int);
    let rollout = Rollout {
        owner: snapshot.owner,
        namespace: snapshot.namespace(),
        selector: &spec.selector,
        old: &[current],
        update,
        stays_on_nodes: rolling.is_some_and(|rolling| is_in_place(&rolling.pod_update_policy))
            && inplace::decide(current, update, &options).is_ok(),
        few: FEW,
        replicas: snapshot.desired.replicas,
        partition: i32::try_from(snapshot.desired.partition).unwrap_or(i32::MAX),
        max_unavailable: unavailable_rounded_down(spec),
        updated_ready: status.map_or(0, |status| status.updated_ready_replicas),
        min_updated_ready: min_updated_ready.unwrap_or(0),
        parallelism: parallelism.as_ref(),
        timeout_seconds: number(annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS),
    };
    predownload::pre_download(&rollout, &snapshot.observed.pull_jobs, plan);
}
