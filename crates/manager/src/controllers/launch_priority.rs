//! Containers that start one after the other: what is watched, read and remembered. Every decision is made in [`kruise_core::launch_priority`].

use crate::{
    apply::Applied,
    platform::{Platform, live},
    reconcile::{Enqueue, Observer, Watches},
};
use kruise_api::{configmap::ConfigMap, kind::Kind as _, meta::Uid, names::pattern, pod::Pod};
use kruise_core::{
    launch_priority::{Barrier, Found, Observed, after, look_after, must_read},
    plan::{Outcome, Plan},
};
use kruise_runtime::{
    cache::{Event, Store},
    error::Error,
    resource::ObjectKey,
};
use kube::Client;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};

pub(super) struct LaunchPriority {
    pods: Store<Pod>,
    client: Client,
    /// What is known of the barriers of Pods, with the Pods' UIDs.
    barriers: Mutex<HashMap<ObjectKey, (Uid, Barrier)>>,
}

impl Observer for LaunchPriority {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            pods: platform.store(),
            client: platform.client().clone(),
            barriers: Mutex::default(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let this = self.clone();
        Watches::of_some(&self.pods, move |event, enqueue| this.pod_changed(event, enqueue))
    }

    async fn read_ahead(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return Ok(());
        };
        if must_read(&pod, self.barrier(key, &pod).as_ref()) {
            let name = pattern::barrier_config_map(&key.name);
            let found: Option<Found> = live::read(&self.client, ConfigMap::RESOURCE, &key.namespace, &name).await?;
            self.remember(key, &pod, found.map(|found| Barrier::found(&found, &pod)));
        }
        Ok(())
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let pod = self.pods.get(&key.namespace, &key.name)?;
        Some(Observed {
            barrier: self.barrier(key, &pod),
            pod,
        })
    }

    fn applied(&self, key: &ObjectKey, plan: &Plan, applied: &Applied) {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return;
        };
        let created = applied.unwatched.first().map(|(_, uid)| uid.as_str());
        let barrier = after(self.barrier(key, &pod), plan, &applied.outcome, created);
        self.remember(key, &pod, barrier);
    }

    fn forget(&self, key: &ObjectKey) {
        self.barriers.lock().remove(key);
    }
}

impl LaunchPriority {
    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let Some(pod) = event.latest() else { return };
        let (namespace, name) = (&*pod.metadata.namespace, &*pod.metadata.name);
        if event.new.is_none() {
            self.forget(&ObjectKey::new(namespace, name));
            return;
        }
        match look_after(pod, || self.barrier(&ObjectKey::new(namespace, name), pod)) {
            Some(Duration::ZERO) => enqueue.key(namespace, name),
            Some(delay) => enqueue.after(namespace, name, delay),
            None => {}
        }
    }

    /// What is known of this very Pod's barrier.
    fn barrier(&self, key: &ObjectKey, pod: &Pod) -> Option<Barrier> {
        let barriers = self.barriers.lock();
        let (_, barrier) = barriers.get(key).filter(|(uid, _)| *uid == pod.metadata.uid)?;
        Some(barrier.clone())
    }

    fn remember(&self, key: &ObjectKey, pod: &Pod, barrier: Option<Barrier>) {
        let mut barriers = self.barriers.lock();
        match barrier {
            Some(barrier) => drop(barriers.insert(key.clone(), (pod.metadata.uid.clone(), barrier))),
            None => drop(barriers.remove(key)),
        }
    }
}
