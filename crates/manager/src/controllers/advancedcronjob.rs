//! AdvancedCronJobs: what is watched and what is looked at. Every decision is made in [`kruise_core::advancedcronjob`].
//!
//! A change of an object has it looked at, and so does one of the jobs that it started. In between nothing happens until its next time.

use super::broadcastjob::BROADCAST_JOBS_BY_OWNER;
use crate::{
    Settings,
    platform::{LISTS_BY_OWNER, Platform, Watched},
    reconcile::{Observer, Watches},
};
use kruise_api::{
    advancedcronjob::v1beta1::AdvancedCronJob, broadcastjob::v1beta1::BroadcastJob,
    imagelistpulljob::v1beta1::ImageListPullJob, job::Job,
};
use kruise_core::{
    advancedcronjob::{Observed, child::Child},
    plan::Outcome,
};
use kruise_runtime::{
    cache::{Index, Kind, Store, uid_key},
    resource::ObjectKey,
};
use std::sync::Arc;

impl Watched for AdvancedCronJob {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}

/// Jobs by the UID of the owner that manages them.
const JOBS_BY_OWNER: Index<Job> = Index::new("owner", |job, key| {
    if let Some(owner) = job.metadata.controller() {
        uid_key(&owner.uid, key);
    }
});

impl Watched for Job {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&JOBS_BY_OWNER)
    }
}

pub(super) struct AdvancedCronJobs {
    crons: Store<AdvancedCronJob>,
    jobs: Store<Job>,
    broadcast_jobs: Store<BroadcastJob>,
    lists: Store<ImageListPullJob>,
}

impl Observer for AdvancedCronJobs {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            crons: platform.store(),
            jobs: platform.store(),
            broadcast_jobs: platform.store(),
            lists: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        Watches::of(&self.crons)
            .owned(&self.jobs)
            .owned(&self.broadcast_jobs)
            .owned(&self.lists)
    }

    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Observed> {
        let cron = self.crons.get(&key.namespace, &key.name)?;
        let uid = cron.metadata.uid.as_deref().unwrap_or_default();
        let template = &cron.spec.template;
        let children = if !template.job_template.is_empty() {
            let jobs = self.jobs.by(&JOBS_BY_OWNER, uid);
            jobs.iter().map(|job| Child::of_job(job)).collect()
        } else if template.image_list_pull_job_template.is_some() {
            let lists = self.lists.by(&LISTS_BY_OWNER, uid);
            lists.iter().map(|list| Child::of_image_list_pull_job(list)).collect()
        } else {
            let jobs = self.broadcast_jobs.by(&BROADCAST_JOBS_BY_OWNER, uid);
            jobs.iter().map(|job| Child::of_broadcast_job(job)).collect()
        };
        Some(Observed { children, last, cron })
    }
}
