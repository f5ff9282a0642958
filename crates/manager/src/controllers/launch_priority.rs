//! Containers that start one after the other: the keys of a Pod's barrier come in the order of its priorities. What comes next is decided
//! in [`kruise_core::shared::launch_priority`].
//!
//! The barriers themselves are not watched: a cluster has many ConfigMaps. What was written is remembered until the Pod is done; after a
//! restart of the manager the next key is written once more, which changes nothing.

use super::Part;
use crate::platform::{Platform, Workplace};
use kruise_admission::descriptor::Controller;
use kruise_api::pod::Pod;
use kruise_core::shared::{
    launch_priority::{Release, barrier_name, release, waits},
    pod_change::Part as Written,
};
use kruise_runtime::{
    cache::Store,
    controller::{Outcome, priority},
    error::{Class, Error},
    resource::{ObjectKey, Resource},
    writer::{Patch, Preconditions, Target},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

static CONFIG_MAP: Resource = Resource::namespaced("", "v1", "ConfigMap", "configmaps");

struct LaunchPriority {
    pods: Store<Pod>,
    place: Workplace,
    /// Keys that were put into the barrier of a Pod, by the Pod's UID.
    released: Mutex<HashMap<String, BTreeSet<String>>>,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> Part {
    let this = Arc::new(LaunchPriority {
        pods: platform.store(),
        place: platform.workplace(controller),
        released: Mutex::default(),
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
    let (pods, queue) = (this.pods.clone(), this.place.queue().clone());
    let woken = this.clone();
    Part::new(controller.name, this.place.controller(), move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    })
    .wake(move || {
        pods.subscribe(move |event| match event.new {
            Some(pod) if waits(pod) && woken.next(pod) != Release::default() => queue.add(
                ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name),
                priority(event),
            ),
            Some(_) => {}
            None => {
                if let Some(gone) = event.old {
                    woken.forget(gone);
                }
            }
        });
    })
}

impl LaunchPriority {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.place.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let mut next = self.next(&pod);
        if let Some(barrier) = next.create.take() {
            let created = self
                .place
                .writer()
                .create(&CONFIG_MAP, &key.namespace, barrier.to_string())
                .await;
            match created {
                Ok(_) => self.remember(&pod, &barrier),
                // Made by an earlier life of ours, with keys that we do not know.
                Err(error) if error.is_already_exists() => {
                    self.remember(&pod, &Value::Null);
                    next = self.next(&pod);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(patch) = next.patch {
            let name = barrier_name(&pod);
            let target = Target::new(&CONFIG_MAP, &key.namespace, &name);
            let changed = self
                .place
                .writer()
                .patch(&target, Patch::Merge(patch.clone()), &Preconditions::NONE)
                .await;
            match changed {
                Ok(_) => self.remember(&pod, &patch),
                // Somebody removed it: it is made again.
                Err(error) if error.class() == Class::Gone => {
                    self.forget(&pod);
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(complete) = next.complete {
            let target = Target::new(self.pods.resource(), &key.namespace, &key.name);
            let target = match complete.part {
                Written::Status => target.status(),
                Written::Pod | Written::Resize => target,
            };
            let written = self
                .place
                .writer()
                .patch(&target, Patch::Strategic(complete.body), &Preconditions::NONE)
                .await?;
            self.place
                .expectations()
                .changed(key, &self.pods, &key.namespace, &written);
            self.forget(&pod);
        }
        Ok(Outcome::done())
    }

    fn next(&self, pod: &Pod) -> Release {
        release(pod, self.released().get(&pod.metadata.uid.to_string()))
    }

    /// Notes the keys of a barrier that was written.
    fn remember(&self, pod: &Pod, written: &Value) {
        let keys = written.get("data").and_then(Value::as_object);
        let keys = keys.into_iter().flat_map(|data| data.keys().cloned());
        self.released()
            .entry(pod.metadata.uid.to_string())
            .or_default()
            .extend(keys);
    }

    fn forget(&self, pod: &Pod) {
        self.released().remove(&pod.metadata.uid.to_string());
    }

    fn released(&self) -> std::sync::MutexGuard<'_, HashMap<String, BTreeSet<String>>> {
        // Every change of it is a single step.
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
