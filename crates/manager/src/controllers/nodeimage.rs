//! NodeImages: what is watched, what is looked at, and what came of it. Every decision is made in [`kruise_core::nodeimage`].
//!
//! - A change of a NodeImage wakes it up. A node does so only when there is something to do: it is new and ready, its labels changed, or it is gone.
//!   Nodes report every few seconds; that alone is nothing.
//! - A job that is gone wakes the NodeImages whose tags it owns.

use super::{ControllerHandle, Planned};
use crate::apply::Applier;
use crate::platform::{ControllerContext, IMAGES_BY_JOB, Platform};
use kruise_admission::descriptor::Controller;
use kruise_api::{
    gates::Gates,
    imagepulljob::v1beta1::ImagePullJob,
    kind::Kind as _,
    node::Node,
    nodeimage::{CachedNodeImage, v1beta1::NodeImage},
    secret::Secret,
};
use kruise_core::{
    nodeimage::{self, Observed, jobs_to_look_up, secrets_to_look_up},
    plan::{Plan, Server},
};
use kruise_runtime::{
    cache::{Event, Store},
    controller::{Outcome, for_objects, priority},
    error::Error,
    events::Regarding,
    resource::ObjectKey,
};
use std::{sync::Arc, time::Duration};

struct NodeImages {
    images: Store<CachedNodeImage>,
    nodes: Store<Node>,
    jobs: Store<ImagePullJob>,
    secrets: Store<Secret>,
    context: Arc<ControllerContext>,
    applier: Applier,
    gates: Gates,
    server: Server,
    creation_delay: Duration,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let context = Arc::new(platform.context(controller));
    let images: Store<CachedNodeImage> = platform.store();
    let settings = platform.settings().clone();
    let this = Arc::new(NodeImages {
        nodes: platform.store(),
        jobs: platform.store(),
        secrets: platform.store(),
        applier: Applier::new(context.clone()).watching(NodeImage::RESOURCE, images.clone()),
        images,
        context: context.clone(),
        gates: settings.gates,
        server: Server {
            pod_resize: platform.server().has_pod_resize(),
        },
        creation_delay: settings.flags.rules.nodeimage_creation_delay,
    });
    super::planned(platform, controller, NodeImage::KIND, this)
}

impl Planned for NodeImages {
    fn context(&self) -> &ControllerContext {
        &self.context
    }

    fn subscribe(self: &Arc<Self>) {
        let queue = self.context.queue();
        for_objects(&self.images, queue);
        let (this, woken) = (self.clone(), queue.clone());
        self.nodes.subscribe(move |event| {
            if let Some(node) = event.latest().filter(|_| this.is_news(event)) {
                woken.add(ObjectKey::new("", &node.metadata.name), priority(event));
            }
        });
        let (this, woken) = (self.clone(), queue.clone());
        self.jobs.subscribe(move |event| {
            let (Some(gone), None) = (event.old, event.new) else {
                return;
            };
            let uid = gone.metadata.uid.as_deref().unwrap_or_default();
            for images in this.images.by(&IMAGES_BY_JOB, uid) {
                woken.add(ObjectKey::new("", &images.metadata.name), priority(event));
            }
        });
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some((regarding, plan)) = self.plan(key) else {
            self.context.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let applied = self.applier.apply(key, &regarding, &plan).await;
        Ok(applied.result)
    }

    /// What to do for a node now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)> {
        let observed = self.observe(key)?;
        let uid = observed
            .images
            .as_ref()
            .map(|images| images.metadata.uid.to_string())
            .unwrap_or_default();
        let regarding = Regarding::new(NodeImage::RESOURCE, "", &key.name, &uid);
        if let Some(waiting) = super::waiting_for_cache(&self.context, key) {
            return Some((regarding, waiting));
        }
        let env = super::env_now(self.gates, self.server);
        Some((regarding, nodeimage::plan(&observed, &env)))
    }
}

impl NodeImages {
    /// Whether a change of a node asks for anything.
    fn is_news(&self, event: &Event<'_, Node>) -> bool {
        let Some(node) = event.new.filter(|node| !node.metadata.is_deleting()) else {
            return true;
        };
        match self.images.get("", &node.metadata.name) {
            Some(images) => images.metadata.labels != node.metadata.labels,
            None => !node.is_virtual() && node.ready_since().is_some(),
        }
    }

    fn observe(&self, key: &ObjectKey) -> Option<Observed> {
        let (node, images) = (self.nodes.get("", &key.name), self.images.get("", &key.name));
        if node.is_none() && images.is_none() {
            return None;
        }
        let jobs = images.as_deref().map(jobs_to_look_up).unwrap_or_default();
        let jobs = jobs.into_iter().map(|(namespace, name)| {
            let found = self.jobs.get(&namespace, &name);
            let uid = found.and_then(|job| job.metadata.uid.clone());
            ((namespace, name), uid)
        });
        let secrets = images.as_deref().map(secrets_to_look_up).unwrap_or_default();
        let gone = secrets
            .into_iter()
            .filter(|(namespace, name)| self.secrets.get(namespace, name).is_none());
        Some(Observed {
            name: key.name.to_string(),
            jobs: jobs.collect(),
            gone_secrets: gone.collect(),
            creation_delay: self.creation_delay,
            node,
            images,
        })
    }
}
