//! ImageListPullJobs: what is watched and what is looked at. Every decision is made in [`kruise_core::imagelistpulljob`].

use crate::{
    platform::{JOBS_BY_OWNER, Platform},
    reconcile::{Observer, Watches},
};
use kruise_api::{imagelistpulljob::v1beta1::ImageListPullJob, imagepulljob::v1beta1::ImagePullJob};
use kruise_core::{imagelistpulljob::Observed, plan::Outcome};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::sync::Arc;

pub(super) struct ImageListPullJobs {
    lists: Store<ImageListPullJob>,
    jobs: Store<ImagePullJob>,
}

impl Observer for ImageListPullJobs {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            lists: platform.store(),
            jobs: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        Watches::of(&self.lists).owned(&self.jobs)
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let list = self.lists.get(&key.namespace, &key.name)?;
        Some(Observed {
            jobs: self
                .jobs
                .by(&JOBS_BY_OWNER, list.metadata.uid.as_deref().unwrap_or_default()),
            list,
        })
    }
}
