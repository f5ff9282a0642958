//! ImagePullJobs: what is watched, what is looked at, and what came of it. Every decision is made in [`kruise_core::imagepulljob`].
//!
//! - A change of a job wakes it up. So does a node that comes, goes or changes its labels, for the jobs that choose it; and what a node says about a
//!   tag, for the jobs that asked for it, and for no others.
//! - Pods wake the jobs of their namespace that go by Pods, when they come to a node, leave it, or match from now on.
//! - Secrets wake the jobs that name them; copies wake the jobs that use them.

mod copies;
mod nodes;

use self::copies::Copies;
use super::{ControllerHandle, Planned};
use crate::apply::Applier;
use crate::platform::{
    ACTIVE_JOBS, ControllerContext, JOBS_BY_POD_NAMESPACE, JOBS_BY_SECRET, Platform, SECRETS_BY_SOURCE, SECRETS_BY_USER,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kruise_admission::descriptor::Controller;
use kruise_api::{
    cloneset::v1beta1::CloneSet, gates::Gates, imagepulljob::v1beta1::ImagePullJob, kind::Kind as _,
    meta::PartialObject, nodeimage::CachedNodeImage, pod::Pod, secret::Secret,
};
use kruise_core::{
    imagepulljob::{
        self, Observed, is_active,
        secrets::{self, Secrets, users},
        select::{chooses, chooses_pod, is_running},
    },
    nodeimage::jobs_concerned,
    plan::{Env, Plan, Server},
};
use kruise_runtime::{
    cache::{Event, Store},
    controller::{Outcome, for_objects, priority},
    error::Error,
    events::Regarding,
    resource::ObjectKey,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

struct ImagePullJobs {
    jobs: Store<ImagePullJob>,
    images: Store<CachedNodeImage>,
    pods: Store<Pod>,
    secrets: Store<Secret>,
    namespaces: Store<PartialObject>,
    /// Owners of jobs that go by Pods; they say in which order.
    sets: Store<CloneSet>,
    context: Arc<ControllerContext>,
    applier: Applier,
    copies: Copies,
    /// When the progress of a job was last written.
    told: Mutex<HashMap<ObjectKey, Timestamp>>,
    gates: Gates,
    server: Server,
    secret_namespace: String,
    tag_ttl_seconds: i64,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let context = Arc::new(platform.context(controller));
    let jobs: Store<ImagePullJob> = platform.store();
    let images: Store<CachedNodeImage> = platform.store();
    let secrets: Store<Secret> = platform.store();
    let settings = platform.settings().clone();
    let this = Arc::new(ImagePullJobs {
        pods: platform.store(),
        namespaces: platform.metadata_store(Namespace::RESOURCE),
        sets: platform.store(),
        applier: Applier::new(context.clone())
            .watching(ImagePullJob::RESOURCE, jobs.clone())
            .watching(CachedNodeImage::RESOURCE, images.clone())
            .watching(Secret::RESOURCE, secrets.clone()),
        jobs,
        images,
        secrets,
        context: context.clone(),
        copies: Copies::default(),
        told: Mutex::default(),
        gates: settings.gates,
        server: Server {
            pod_resize: platform.server().has_pod_resize(),
        },
        secret_namespace: settings.environment.daemon_config_namespace.clone(),
        tag_ttl_seconds: settings.flags.rules.default_ttlseconds_for_always_nodeimage,
    });
    super::planned(platform, controller, ImagePullJob::KIND, this)
}

impl Planned for ImagePullJobs {
    fn context(&self) -> &ControllerContext {
        &self.context
    }

    fn subscribe(self: &Arc<Self>) {
        for_objects(&self.jobs, self.context.queue());
        let this = self.clone();
        self.images.subscribe(move |event| this.node_changed(event));
        let this = self.clone();
        self.pods.subscribe(move |event| this.pod_changed(event));
        let this = self.clone();
        self.secrets.subscribe(move |event| this.secret_changed(event));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some((regarding, plan)) = self.plan(key) else {
            self.context.expectations().forget(key);
            self.told.lock().remove(key);
            return Ok(Outcome::done());
        };
        if !self.copies.begin(&plan) {
            return Ok(Outcome::wake_after(copies::AGAIN));
        }
        let applied = self.applier.apply(key, &regarding, &plan).await;
        if !applied.outcome.failures.is_empty() {
            self.copies.fail(&plan);
        }
        if plan.status.is_some() {
            self.told.lock().insert(key.clone(), Timestamp::now());
        }
        Ok(applied.result)
    }

    /// What to do for a job now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        let observed = self.observe(key)?;
        let uid = observed.job.metadata.uid.as_deref().unwrap_or_default();
        let regarding = Regarding::new(ImagePullJob::RESOURCE, &key.namespace, &key.name, uid);
        if let Some(waiting) = super::waiting_for_cache(&self.context, key) {
            return Some((regarding, waiting));
        }
        let env: Env = super::env_now(self.gates, self.server);
        Some((regarding, imagepulljob::plan(&observed, &env)))
    }
}

impl ImagePullJobs {
    fn wake<K>(&self, event: &Event<'_, K>, namespace: &str, name: &str) {
        self.context
            .queue()
            .add(ObjectKey::new(namespace, name), priority(event));
    }

    fn wake_job<K>(&self, event: &Event<'_, K>, job: &ImagePullJob) {
        let meta = &job.metadata;
        self.wake(
            event,
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        );
    }

    fn node_changed(&self, event: &Event<'_, CachedNodeImage>) {
        match (event.old, event.new) {
            (Some(old), Some(new)) if old.metadata.is_deleting() == new.metadata.is_deleting() => {
                for (namespace, name) in jobs_concerned(old, new) {
                    self.wake(event, &namespace, &name);
                }
                if old.metadata.labels != new.metadata.labels {
                    let moved = |job: &ImagePullJob| chooses(&job.spec, old) != chooses(&job.spec, new);
                    for job in self.jobs.select(&ACTIVE_JOBS, "true", moved) {
                        self.wake_job(event, &job);
                    }
                }
            }
            _ => {
                let Some(node) = event.latest() else { return };
                let goes_by_pods = |job: &ImagePullJob| job.spec.pod_selector.is_some();
                let concerned = |job: &ImagePullJob| chooses(&job.spec, node) || goes_by_pods(job);
                for job in self.jobs.select(&ACTIVE_JOBS, "true", concerned) {
                    self.wake_job(event, &job);
                }
            }
        }
    }

    fn pod_changed(&self, event: &Event<'_, Pod>) {
        let Some(pod) = event.latest() else { return };
        let counts = |job: &ImagePullJob, pod: Option<&Arc<Pod>>| {
            pod.is_some_and(|pod| is_running(pod) && chooses_pod(&job.spec, pod))
        };
        let changed = |job: &ImagePullJob| counts(job, event.old) != counts(job, event.new);
        for job in self
            .jobs
            .select(&JOBS_BY_POD_NAMESPACE, &pod.metadata.namespace, changed)
        {
            self.wake_job(event, &job);
        }
    }

    fn secret_changed(&self, event: &Event<'_, Secret>) {
        let Some(secret) = event.latest() else { return };
        let content = |secret: Option<&Arc<Secret>>| secret.map(|secret| secret.content);
        if content(event.old) != content(event.new) {
            let key = secrets::key(&secret.metadata.namespace, &secret.metadata.name);
            for job in self.jobs.by(&JOBS_BY_SECRET, &key) {
                self.wake_job(event, &job);
            }
        }
        if *secret.metadata.namespace == *self.secret_namespace {
            if let Some(source) = event.new.and_then(|copy| secrets::source(copy)) {
                self.copies.seen(source);
            }
            for copy in [event.old, event.new].into_iter().flatten() {
                for (namespace, name) in users(copy).into_iter().filter_map(|job| job.split_once('/')) {
                    self.wake(event, namespace, name);
                }
            }
        }
    }

    fn observe(&self, key: &ObjectKey) -> Option<Observed> {
        let job = self.jobs.get(&key.namespace, &key.name)?;
        let nodes = if is_active(&job) { self.nodes(&job) } else { Vec::new() };
        Some(Observed {
            secrets: self.look_up_secrets(key, &job),
            told: self.told.lock().get(key).copied(),
            tag_ttl_seconds: self.tag_ttl_seconds,
            nodes,
            job,
        })
    }

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
