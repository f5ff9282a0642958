//! ImageListPullJobs: what is watched, what is looked at, and what came of it. Every decision is made in [`kruise_core::imagelistpulljob`].

use super::{ControllerHandle, Planned};
use crate::apply::Applier;
use crate::platform::{ControllerContext, JOBS_BY_OWNER, Platform};
use kruise_admission::descriptor::Controller;
use kruise_api::{
    gates::Gates, imagelistpulljob::v1beta1::ImageListPullJob, imagepulljob::v1beta1::ImagePullJob, kind::Kind as _,
};
use kruise_core::{
    imagelistpulljob::{self, Observed},
    plan::{Plan, Server},
};
use kruise_runtime::{
    cache::Store,
    controller::{Outcome, for_objects, priority},
    error::Error,
    events::Regarding,
    resource::ObjectKey,
};
use std::sync::Arc;

struct ImageListPullJobs {
    lists: Store<ImageListPullJob>,
    jobs: Store<ImagePullJob>,
    context: Arc<ControllerContext>,
    applier: Applier,
    gates: Gates,
    server: Server,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let context = Arc::new(platform.context(controller));
    let lists: Store<ImageListPullJob> = platform.store();
    let jobs: Store<ImagePullJob> = platform.store();
    let this = Arc::new(ImageListPullJobs {
        applier: Applier::new(context.clone())
            .watching(ImageListPullJob::RESOURCE, lists.clone())
            .watching(ImagePullJob::RESOURCE, jobs.clone()),
        lists,
        jobs,
        context: context.clone(),
        gates: platform.settings().gates,
        server: Server {
            pod_resize: platform.server().has_pod_resize(),
        },
    });
    super::planned(platform, controller, ImageListPullJob::KIND, this)
}

impl Planned for ImageListPullJobs {
    fn context(&self) -> &ControllerContext {
        &self.context
    }

    fn subscribe(self: &Arc<Self>) {
        for_objects(&self.lists, self.context.queue());
        let queue = self.context.queue().clone();
        self.jobs.subscribe(move |event| {
            let Some(job) = event.latest() else { return };
            let mut owners = job.metadata.owner_references.iter().flatten();
            if let Some(owner) = owners.find(|owner| owner.controller == Some(true) && is_list(owner)) {
                let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
                queue.add(ObjectKey::new(namespace, &owner.name), priority(event));
            }
        });
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some((regarding, plan)) = self.plan(key) else {
            self.context.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let applied = self.applier.apply(key, &regarding, &plan).await;
        Ok(applied.result)
    }

    /// What to do for a list now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        let list = self.lists.get(&key.namespace, &key.name)?;
        let uid = list.metadata.uid.clone().unwrap_or_default();
        let regarding = Regarding::new(ImageListPullJob::RESOURCE, &key.namespace, &key.name, &uid);
        if let Some(waiting) = super::waiting_for_cache(&self.context, key) {
            return Some((regarding, waiting));
        }
        let observed = Observed {
            jobs: self.jobs.by(&JOBS_BY_OWNER, &uid),
            list,
        };
        let env = super::env_now(self.gates, self.server);
        Some((regarding, imagelistpulljob::plan(&observed, &env)))
    }
}

/// Of any version.
fn is_list(owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    owner.kind == ImageListPullJob::KIND && group == Some(ImageListPullJob::GROUP)
}
