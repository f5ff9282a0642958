//! ContainerRecreateRequests: what is watched, what is looked at, and what came of it. Every decision is made in
//! [`kruise_core::containerrecreaterequest`].
//!
//! A Pod wakes the requests that are about it when it comes or goes, when its deletion begins, and when the kubelet says something new about its
//! containers.

use super::{ControllerHandle, Planned};
use crate::apply::Applier;
use crate::platform::{ControllerContext, Platform, REQUESTS_BY_POD};
use kruise_admission::descriptor::Controller;
use kruise_api::{
    containerrecreaterequest::v1beta1::ContainerRecreateRequest, gates::Gates, kind::Kind as _, pod::Pod,
};
use kruise_core::{
    containerrecreaterequest::{self, Observed},
    plan::{Plan, Server},
};
use kruise_runtime::{
    cache::{Event, Store},
    controller::{Outcome, for_objects, priority},
    error::Error,
    events::Regarding,
    expectations::Visible,
    resource::ObjectKey,
};
use std::sync::Arc;

struct ContainerRecreateRequests {
    requests: Store<ContainerRecreateRequest>,
    pods: Store<Pod>,
    context: Arc<ControllerContext>,
    applier: Applier,
    gates: Gates,
    server: Server,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let context = Arc::new(platform.context(controller));
    let requests: Store<ContainerRecreateRequest> = platform.store();
    let pods: Store<Pod> = platform.store();
    let this = Arc::new(ContainerRecreateRequests {
        applier: Applier::new(context.clone())
            .watching(ContainerRecreateRequest::RESOURCE, requests.clone())
            .watching(Pod::RESOURCE, pods.clone()),
        requests,
        pods,
        context: context.clone(),
        gates: platform.settings().gates,
        server: Server {
            pod_resize: platform.server().has_pod_resize(),
        },
    });
    super::planned(platform, controller, ContainerRecreateRequest::KIND, this)
}

impl Planned for ContainerRecreateRequests {
    fn context(&self) -> &ControllerContext {
        &self.context
    }

    fn subscribe(self: &Arc<Self>) {
        for_objects(&self.requests, self.context.queue());
        let this = self.clone();
        self.pods.subscribe(move |event| this.pod_changed(event));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some((regarding, plan)) = self.plan(key) else {
            self.context.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let applied = self.applier.apply(key, &regarding, &plan).await;
        Ok(applied.result)
    }

    /// What to do for a request now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        let request = self.requests.get(&key.namespace, &key.name)?;
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let regarding = Regarding::new(ContainerRecreateRequest::RESOURCE, &key.namespace, &key.name, uid);
        if let Some(waiting) = super::waiting_for_cache(&self.context, key) {
            return Some((regarding, waiting));
        }
        let observed = Observed {
            pod: self.pods.get(&key.namespace, &request.spec.pod_name),
            request,
        };
        let env = super::env_now(self.gates, self.server);
        Some((regarding, containerrecreaterequest::plan(&observed, &env)))
    }
}

impl ContainerRecreateRequests {
    fn pod_changed(&self, event: &Event<'_, Pod>) {
        let is_same = event.old.zip(event.new).is_some_and(|(old, new)| {
            old.metadata.uid == new.metadata.uid
                && old.metadata.is_deleting() == new.metadata.is_deleting()
                && old.status.container_statuses == new.status.container_statuses
        });
        let Some(pod) = event.latest() else { return };
        for request in self.requests.by(&REQUESTS_BY_POD, &pod.metadata.uid.to_string()) {
            let meta = &request.metadata;
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let key = ObjectKey::new(&text(&meta.namespace), &text(&meta.name));
            // What was written to the Pod is waited for as well.
            if !is_same || self.context.expectations().check(&key) != Visible::All {
                self.context.queue().add(key, priority(event));
            }
        }
    }
}
