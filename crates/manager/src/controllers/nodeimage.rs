//! NodeImages: what is watched and what is looked at. Every decision is made in [`kruise_core::nodeimage`].
//!
//! - A change of a NodeImage has it looked at. A node does so only when there is something to do: it is new and ready, its labels changed, or it is
//!   gone. Nodes report every few seconds; that alone is nothing.
//! - A job that is gone has the NodeImages looked at whose tags it owns.

use crate::{
    platform::{IMAGES_BY_JOB, Platform},
    reconcile::{Observer, Watches},
};
use kruise_api::{imagepulljob::v1beta1::ImagePullJob, node::Node, nodeimage::CachedNodeImage, secret::Secret};
use kruise_core::{
    nodeimage::{Observed, jobs_to_look_up, secrets_to_look_up},
    plan::Outcome,
};
use kruise_runtime::{
    cache::{Event, Store},
    resource::ObjectKey,
};
use std::{sync::Arc, time::Duration};

pub(super) struct NodeImages {
    images: Store<CachedNodeImage>,
    nodes: Store<Node>,
    jobs: Store<ImagePullJob>,
    secrets: Store<Secret>,
    creation_delay: Duration,
}

impl Observer for NodeImages {
    type Observed = Observed;

    fn new(platform: &mut Platform) -> Self {
        Self {
            images: platform.store(),
            nodes: platform.store(),
            jobs: platform.store(),
            secrets: platform.store(),
            creation_delay: platform.settings().flags.rules.nodeimage_creation_delay,
        }
    }

    fn watches(self: &Arc<Self>) -> Watches {
        let (nodes, jobs) = (self.clone(), self.clone());
        Watches::of(&self.images)
            .mapped(&self.nodes, move |event, enqueue| {
                if let Some(node) = event.latest().filter(|_| nodes.needs_update(event)) {
                    enqueue.key("", &node.metadata.name);
                }
            })
            .mapped(&self.jobs, move |event, enqueue| {
                let (Some(gone), None) = (event.old, event.new) else {
                    return;
                };
                let uid = gone.metadata.uid.as_deref().unwrap_or_default();
                for images in jobs.images.by(&IMAGES_BY_JOB, uid) {
                    enqueue.key("", &images.metadata.name);
                }
            })
    }

    fn observe(&self, key: &ObjectKey, _: Outcome) -> Option<Observed> {
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

impl NodeImages {
    /// Whether a change of a node asks for anything.
    fn needs_update(&self, event: &Event<'_, Node>) -> bool {
        let Some(node) = event.new.filter(|node| !node.metadata.is_deleting()) else {
            return true;
        };
        match self.images.get("", &node.metadata.name) {
            Some(images) => images.metadata.labels != node.metadata.labels,
            None => !node.is_virtual() && node.ready_since().is_some(),
        }
    }
}
