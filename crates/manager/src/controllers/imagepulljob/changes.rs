//! Which jobs are to be looked at after a change.

use super::ImagePullJobs;
use crate::{
    platform::{ACTIVE_JOBS, JOBS_BY_POD_NAMESPACE, JOBS_BY_SECRET},
    reconcile::Enqueue,
};
use kruise_api::{imagepulljob::v1beta1::ImagePullJob, nodeimage::CachedNodeImage, pod::Pod, secret::Secret};
use kruise_core::{
    imagepulljob::{
        secrets::{self, users},
        select::{chooses, chooses_pod, is_running},
    },
    nodeimage::jobs_concerned,
};
use kruise_runtime::cache::Event;
use std::sync::Arc;

impl ImagePullJobs {
    fn enqueue(&self, jobs: &[Arc<ImagePullJob>], enqueue: &Enqueue<'_>) {
        for job in jobs {
            let key = self.jobs.name(job);
            enqueue.key(key.namespace, key.name);
        }
    }

    pub(super) fn node_changed(&self, event: &Event<'_, CachedNodeImage>, enqueue: &Enqueue<'_>) {
        match (event.old, event.new) {
            (Some(old), Some(new)) if old.metadata.is_deleting() == new.metadata.is_deleting() => {
                for (namespace, name) in jobs_concerned(old, new) {
                    enqueue.key(&namespace, &name);
                }
                if old.metadata.labels != new.metadata.labels {
                    let moved = |job: &ImagePullJob| chooses(&job.spec, old) != chooses(&job.spec, new);
                    self.enqueue(&self.jobs.select(&ACTIVE_JOBS, "true", moved), enqueue);
                }
            }
            _ => {
                let Some(node) = event.latest() else { return };
                let goes_by_pods = |job: &ImagePullJob| job.spec.pod_selector.is_some();
                let concerned = |job: &ImagePullJob| chooses(&job.spec, node) || goes_by_pods(job);
                self.enqueue(&self.jobs.select(&ACTIVE_JOBS, "true", concerned), enqueue);
            }
        }
    }

    pub(super) fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest() else { return };
        let counts = |job: &ImagePullJob, pod: Option<&Arc<Pod>>| {
            pod.is_some_and(|pod| is_running(pod) && chooses_pod(&job.spec, pod))
        };
        let changed = |job: &ImagePullJob| counts(job, event.old) != counts(job, event.new);
        self.enqueue(
            &self
                .jobs
                .select(&JOBS_BY_POD_NAMESPACE, &pod.metadata.namespace, changed),
            enqueue,
        );
    }

    pub(super) fn secret_changed(&self, event: &Event<'_, Secret>, enqueue: &Enqueue<'_>) {
        let Some(secret) = event.latest() else { return };
        let content = |secret: Option<&Arc<Secret>>| secret.map(|secret| secret.content);
        if content(event.old) != content(event.new) {
            let key = secrets::key(&secret.metadata.namespace, &secret.metadata.name);
            self.enqueue(&self.jobs.by(&JOBS_BY_SECRET, &key), enqueue);
        }
        if *secret.metadata.namespace == *self.secret_namespace {
            if let Some(source) = event.new.and_then(|copy| secrets::source(copy)) {
                self.copies.seen(source);
            }
            for copy in [event.old, event.new].into_iter().flatten() {
                for (namespace, name) in users(copy).into_iter().filter_map(|job| job.split_once('/')) {
                    enqueue.key(namespace, name);
                }
            }
        }
    }
}
