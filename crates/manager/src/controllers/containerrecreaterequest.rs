//! ContainerRecreateRequests: what is watched and what is looked at. Every decision is made in [`kruise_core::containerrecreaterequest`].
//!
//! A Pod has the requests looked at that are about it when it comes or goes, when its deletion begins, and when the kubelet says something new about its
//! containers.

use crate::{
    platform::{Platform, REQUESTS_BY_POD},
    reconcile::{Enqueue, Observer, Watches},
};
use kruise_api::{containerrecreaterequest::v1beta1::ContainerRecreateRequest, pod::Pod};
use kruise_core::{containerrecreaterequest::Observed, plan::Outcome};
use kruise_runtime::{
    cache::{Event, Store},
    resource::ObjectKey,
};
use std::sync::Arc;

pub(super) struct ContainerRecreateRequests {
    requests: Store<ContainerRecreateRequest>,
    pods: Store<Pod>,
}

impl Observer for ContainerRecreateRequests {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            requests: platform.store(),
            pods: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let this = self.clone();
        Watches::of(&self.requests).mapped(&self.pods, move |event, enqueue| this.pod_changed(event, enqueue))
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let request = self.requests.get(&key.namespace, &key.name)?;
        Some(Observed {
            pod: self.pods.get(&key.namespace, &request.spec.pod_name),
            request,
        })
    }
}

impl ContainerRecreateRequests {
    fn pod_changed(&self, event: &Event<'_, Pod>, enqueue: &Enqueue<'_>) {
        let is_same = event.old.zip(event.new).is_some_and(|(old, new)| {
            old.metadata.uid == new.metadata.uid
                && old.metadata.is_deleting() == new.metadata.is_deleting()
                && old.status.container_statuses == new.status.container_statuses
        });
        let Some(pod) = event.latest() else { return };
        for request in self.requests.by(&REQUESTS_BY_POD, &pod.metadata.uid.to_string()) {
            let name = self.requests.name(&request);
            if is_same {
                // What was written to the Pod is waited for as well.
                enqueue.if_waiting(name.namespace, name.name);
            } else {
                enqueue.key(name.namespace, name.name);
            }
        }
    }
}
