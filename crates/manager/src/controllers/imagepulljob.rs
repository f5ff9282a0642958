//! ImagePullJobs: what is watched and what is looked at. Every decision is made in [`kruise_core::imagepulljob`].
//!
//! - A change of a job has it looked at. So does a node that comes, goes or changes its labels, for the jobs that choose it; and what a node says about a
//!   tag, for the jobs that asked for it, and for no others.
//! - Pods wake the jobs of their namespace that go by Pods, when they come to a node, leave it, or match from now on.
//! - Secrets wake the jobs that name them; copies wake the jobs that use them.

mod changes;
mod copies;
mod nodes;

use self::copies::Copies;
use crate::{
    apply::Applied,
    platform::{Platform, SECRETS_BY_SOURCE, SECRETS_BY_USER},
    reconcile::{LastWrites, Observer, Watches},
};
use k8s_openapi::api::core::v1::Namespace;
use kruise_api::{
    cloneset::v1beta1::CloneSet, imagepulljob::v1beta1::ImagePullJob, kind::Kind as _, meta::PartialObject,
    nodeimage::CachedNodeImage, pod::Pod, secret::Secret,
};
use kruise_core::{
    imagepulljob::{
        Observed, is_active,
        secrets::{self, Secrets},
    },
    plan::{Outcome, Plan},
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(super) struct ImagePullJobs {
    jobs: Store<ImagePullJob>,
    images: Store<CachedNodeImage>,
    pods: Store<Pod>,
    secrets: Store<Secret>,
    namespaces: Store<PartialObject>,
    /// Owners of jobs that go by Pods; they say in which order.
    sets: Store<CloneSet>,
    copies: Copies,
    /// When the progress of a job was last written.
    last_written: LastWrites,
    secret_namespace: String,
    tag_ttl_seconds: i64,
}

impl Observer for ImagePullJobs {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        let settings = platform.settings().clone();
        Self {
            jobs: platform.store(),
            images: platform.store(),
            pods: platform.store(),
            secrets: platform.store(),
            namespaces: platform.metadata_store(Namespace::RESOURCE),
            sets: platform.store(),
            copies: Copies::default(),
            last_written: LastWrites::default(),
            secret_namespace: settings.environment.daemon_config_namespace.clone(),
            tag_ttl_seconds: settings.flags.rules.default_ttlseconds_for_always_nodeimage,
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (images, pods, secrets) = (self.clone(), self.clone(), self.clone());
        Watches::of(&self.jobs)
            .mapped(&self.images, move |event, enqueue| images.node_changed(event, enqueue))
            .mapped(&self.pods, move |event, enqueue| pods.pod_changed(event, enqueue))
            .mapped(&self.secrets, move |event, enqueue| {
                secrets.secret_changed(event, enqueue);
            })
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let job = self.jobs.get(&key.namespace, &key.name)?;
        let nodes = if is_active(&job) { self.nodes(&job) } else { Vec::new() };
        Some(Observed {
            secrets: self.look_up_secrets(key, &job),
            last_written: self.last_written.of(key),
            tag_ttl_seconds: self.tag_ttl_seconds,
            nodes,
            job,
        })
    }

    fn begin(&self, plan: &Plan) -> Result<(), Duration> {
        if self.copies.begin(plan) {
            Ok(())
        } else {
            Err(copies::AGAIN)
        }
    }

    fn applied(&self, key: &ObjectKey, plan: &Plan, applied: &Applied) {
        if !applied.outcome.failures.is_empty() {
            self.copies.fail(plan);
        }
        self.last_written.remember(key, plan);
    }

    fn forget(&self, key: &ObjectKey) {
        self.last_written.forget(key);
    }
}

impl ImagePullJobs {
    fn look_up_secrets(&self, key: &ObjectKey, job: &ImagePullJob) -> Secrets {
        let place = &self.secret_namespace;
        let is_ours = |copy: &Secret| *copy.metadata.namespace == **place;
        let us = secrets::key(&key.namespace, &key.name);
        let mut copies: BTreeMap<String, Arc<Secret>> = BTreeMap::new();
        let mut add = |found: Vec<Arc<Secret>>| {
            copies.extend(found.into_iter().map(|copy| (copy.metadata.name.to_string(), copy)));
        };
        add(self.secrets.select(&SECRETS_BY_USER, &us, is_ours));
        let mut sources = BTreeMap::new();
        for name in job.spec.pull_secrets.iter().filter(|_| is_active(job)) {
            if let Some(source) = self.secrets.get(&key.namespace, name) {
                add(self
                    .secrets
                    .select(&SECRETS_BY_SOURCE, &secrets::key(&key.namespace, name), is_ours));
                sources.insert(name.clone(), source);
            }
        }
        let namespace = self.namespaces.get("", place);
        Secrets {
            place: place.clone(),
            has_place: namespace.is_some_and(|namespace| !namespace.metadata.is_deleting()),
            sources,
            copies: copies.into_values().collect(),
        }
    }
}
