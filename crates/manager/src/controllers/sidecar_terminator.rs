//! Sidecars of Pods that are done: what is watched and what is looked at. Every decision is made in [`kruise_core::sidecar_terminator`].
//!
//! Only a Pod whose sidecars have to end is looked at. A node that was not known is asked for again after a while.

use crate::{
    platform::Platform,
    reconcile::{Observer, Watches},
};
use kruise_api::{containerrecreaterequest::v1beta1::ContainerRecreateRequest, node::Node, pod::Pod};
use kruise_core::{
    plan::Outcome,
    sidecar_terminator::{Observed, is_due, request_name},
};
use kruise_runtime::{cache::Store, resource::ObjectKey};
use std::sync::Arc;

pub(super) struct SidecarTerminator {
    pods: Store<Pod>,
    nodes: Store<Node>,
    requests: Store<ContainerRecreateRequest>,
}

impl Observer for SidecarTerminator {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            pods: platform.store(),
            nodes: platform.store(),
            requests: platform.store(),
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let looks_at_pods = Watches::of_some(&self.pods, |event, enqueue| {
            if let Some(pod) = event.new {
                let (namespace, name) = (&*pod.metadata.namespace, &*pod.metadata.name);
                if is_due(pod) {
                    enqueue.key(namespace, name);
                } else {
                    enqueue.if_waiting(namespace, name);
                }
            }
        });
        // A request that was made is waited for; one that goes lets nothing be done again.
        looks_at_pods.mapped(&self.requests, |event, enqueue| {
            if let Some(request) = event.new {
                let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
                enqueue.if_waiting(namespace, &request.spec.pod_name);
            }
        })
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
        let pod = self.pods.get(&key.namespace, &key.name)?;
        Some(Observed {
            node: self.nodes.get("", &pod.spec.node_name),
            is_requested: self.requests.contains(&key.namespace, &request_name(&pod)),
            pod,
        })
    }
}
