//! The readiness of Pods: what is watched and what is looked at. Every decision is made in [`kruise_core::pod_readiness`].
//!
//! Only a Pod that lacks something is looked at.

use crate::{
    platform::Platform,
    reconcile::{Observer, Watches},
};
use kruise_api::pod::Pod;
use kruise_core::{
    plan::Outcome,
    pod_readiness::{Observed, is_due},
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::sync::Arc;

pub(super) struct PodReadiness {
    pods: Store<Pod>,
}

impl Observer for PodReadiness {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self { pods: platform.store() }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        Watches::of_some(&self.pods, |event, enqueue| {
            if let Some(pod) = event.new.filter(|pod| is_due(pod)) {
                enqueue.key(&pod.metadata.namespace, &pod.metadata.name);
            }
        })
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let pod = self.pods.get(&key.namespace, &key.name)?;
        Some(Observed { pod })
    }
}
