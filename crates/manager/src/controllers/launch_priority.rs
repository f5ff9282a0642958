//! Containers that start one after the other: the keys of a Pod's barrier come in the order of its priorities. What comes next is decided
//! in [`kruise_core::shared::launch_priority`].
//!
//! The barriers themselves are not watched: a cluster has many ConfigMaps. What was written is remembered until the Pod is done. A barrier is read
//! only when there is one that we did not make, and when a container cannot be started although its key was written.

use super::ControllerHandle;
use crate::platform::{ControllerContext, Platform};
use k8s_openapi::api::core::v1::ConfigMap;
use kruise_admission::descriptor::Controller;
use kruise_api::{kind::Kind as _, names::event, pod::Pod, resource::Preconditions};
use kruise_core::shared::launch_priority::{Barrier, Release, Whose, barrier_name, is_stuck, release, waits};
use kruise_runtime::{
    cache::Store,
    controller::{Outcome, priority},
    error::{Class, Error},
    events::{EventType, Regarding},
    queue::Priority,
    resource::ObjectKey,
    writer::{DeleteOptions, Patch, Target},
};
use kube::core::{Request, params::GetParams};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// How long a barrier may take to be read.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long a container may be unable to start before its barrier is looked for: kubelet tries again within 15 seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

struct LaunchPriority {
    pods: Store<Pod>,
    context: ControllerContext,
    /// The barriers of Pods, by the Pods' UIDs.
    known: Mutex<HashMap<String, Known>>,
}

/// What is known of a Pod's own barrier.
struct Known {
    uid: String,
    keys: BTreeSet<String>,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let this = Arc::new(LaunchPriority {
        pods: platform.store(),
        context: platform.context(controller),
        known: Mutex::default(),
    });
    let explained = this.clone();
    platform.plans().add(
        "Pod",
        controller.name,
        Arc::new(move |key| {
            let pod = explained.pods.get(&key.namespace, &key.name)?;
            let next = explained.next(&pod);
            Some(json!({"create": next.create, "patch": next.patch, "complete": next.complete.map(|pod| pod.body)}))
        }),
    );
    let (pods, queue) = (this.pods.clone(), this.context.queue().clone());
    let woken = this.clone();
    ControllerHandle::new(controller.name, this.context.controller(), move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    })
    .on_start(move || {
        pods.subscribe(move |event| match event.new {
            Some(pod) if waits(pod) && woken.next(pod) != Release::default() => queue.add(key(pod), priority(event)),
            Some(pod) if is_stuck(pod) => queue.add_after(key(pod), Priority::Background, LOOK_AGAIN),
            Some(_) => {}
            None => {
                if let Some(gone) = event.old {
                    woken.forget(gone);
                }
            }
        });
    })
}

fn key(pod: &Pod) -> ObjectKey {
    ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name)
}

impl LaunchPriority {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.context.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let mut next = self.next(&pod);
        if next == Release::default() && is_stuck(&pod) {
            self.look(&pod).await?;
            next = self.next(&pod);
        }
        if let Some(barrier) = next.create.take() {
            let created = self
                .context
                .writer()
                .create(ConfigMap::RESOURCE, &key.namespace, barrier.to_string())
                .await;
            match created {
                Ok(written) => self.remember(&pod, &written.uid, keys(&barrier)),
                Err(error) if error.is_already_exists() => {
                    if self.look(&pod).await? == Some(Whose::Foreign) {
                        self.tell_foreign(&pod);
                        return Ok(Outcome::wake_after(LOOK_AGAIN));
                    }
                    next = self.next(&pod);
                    if next.create.is_some() {
                        // There is room for it now, or soon.
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(patch) = next.patch {
            self.patch(&pod, patch).await?;
        }
        if let Some(complete) = next.complete {
            let target = Target::new(self.pods.resource(), &key.namespace, &key.name).part(complete.subresource);
            let written = self
                .context
                .writer()
                .patch(&target, Patch::Strategic(complete.body), &complete.preconditions)
                .await?;
            self.context
                .expectations()
                .changed(key, &self.pods, &key.namespace, &written);
            self.forget(&pod);
        }
        if is_stuck(&pod) {
            return Ok(Outcome::wake_after(LOOK_AGAIN));
        }
        Ok(Outcome::done())
    }

    /// Writes the next keys into the Pod's own barrier.
    async fn patch(&self, pod: &Pod, patch: Value) -> Result<(), Error> {
        let (name, uid) = (barrier_name(pod), pod.metadata.uid.to_string());
        let Some(barrier) = self.known().get(&uid).map(|known| known.uid.clone()) else {
            return Ok(());
        };
        let target = Target::new(ConfigMap::RESOURCE, &pod.metadata.namespace, &name);
        let written = keys(&patch);
        let patched = self
            .context
            .writer()
            .patch(&target, Patch::Merge(patch), &Preconditions::uid(&barrier))
            .await;
        match patched {
            Ok(_) => self.remember(pod, &barrier, written),
            // Somebody removed or replaced it: it is made again.
            Err(error) if matches!(error.class(), Class::Gone | Class::Conflict) => {
                self.forget(pod);
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks at what has the name of the Pod's barrier: the Pod's own is noted, one that an earlier Pod left is removed.
    async fn look(&self, pod: &Pod) -> Result<Option<Whose>, Error> {
        self.forget(pod);
        let Some(found) = self.read(pod).await? else {
            return Ok(None);
        };
        let (whose, uid) = (found.whose(pod), found.metadata.uid.to_string());
        match whose {
            Whose::Own => self.remember(pod, &uid, found.keys()),
            Whose::Predecessor => {
                let (name, version) = (barrier_name(pod), found.metadata.resource_version.to_string());
                let target = Target::new(ConfigMap::RESOURCE, &pod.metadata.namespace, &name);
                let options = DeleteOptions {
                    preconditions: Preconditions::uid(&uid).at(&version),
                    ..DeleteOptions::default()
                };
                match self.context.writer().delete(&target, &options).await {
                    // The garbage collector was faster.
                    Err(error) if error.class() == Class::Gone => {}
                    deleted => drop(deleted?),
                }
            }
            Whose::Leaving | Whose::Foreign => {}
        }
        Ok(Some(whose))
    }

    async fn read(&self, pod: &Pod) -> Result<Option<Barrier>, Error> {
        let path = format!("/api/v1/namespaces/{}/configmaps", &*pod.metadata.namespace);
        let request = Request::new(path).get(&barrier_name(pod), &GetParams::default());
        let request = request.map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        let late = |_| Error::new(Class::Transient, "a barrier could not be read in time");
        match timeout(DEADLINE, self.context.client().request(request))
            .await
            .map_err(late)?
        {
            Ok(barrier) => Ok(Some(barrier)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn tell_foreign(&self, pod: &Pod) {
        let meta = &pod.metadata;
        let regarding = Regarding::new(self.pods.resource(), &meta.namespace, &meta.name, &meta.uid.to_string());
        let message = format!(
            "ConfigMap {} exists and does not belong to this Pod: its containers start in order once that ConfigMap is removed",
            barrier_name(pod)
        );
        self.context
            .recorder()
            .record(&regarding, EventType::Warning, event::FAILED_CREATE, message);
    }

    fn next(&self, pod: &Pod) -> Release {
        let known = self.known();
        let known = known.get(&pod.metadata.uid.to_string());
        release(pod, known.map(|known| &known.keys))
    }

    /// Notes keys of the Pod's own barrier.
    fn remember(&self, pod: &Pod, uid: &str, keys: BTreeSet<String>) {
        let mut known = self.known();
        let known = known.entry(pod.metadata.uid.to_string()).or_insert_with(|| Known {
            uid: uid.to_owned(),
            keys: BTreeSet::new(),
        });
        known.keys.extend(keys);
    }

    fn forget(&self, pod: &Pod) {
        self.known().remove(&pod.metadata.uid.to_string());
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        // Every change of it is a single step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of a barrier, or of a patch of it.
fn keys(written: &Value) -> BTreeSet<String> {
    let data = written.get("data").and_then(Value::as_object);
    data.into_iter().flat_map(|data| data.keys().cloned()).collect()
}
