//! How far the chosen nodes are.
//!
//! - A node *has the job's entry* when its NodeImage lists image and tag with the job among the owners.
//! - What such a node says counts only for the version that is asked for now: another job may have asked for another pull meanwhile.
//! - A node without the entry waits. So does one with the entry that lacks a Secret; it may be pulling all the same.

use std::sync::Arc;

use kruise_api::nodeimage::v1beta1::SecretReference;
use kruise_api::nodeimage::{CachedNodeImage, ImagePullPhase, ImageTagSpec};

use super::Observed;
use crate::shared::image_name::Image;

/// Nodes, counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) desired: i32,
    pub(super) active: i32,
    pub(super) succeeded: i32,
    /// Names of nodes that gave up.
    pub(super) failed: Vec<String>,
    /// Names of nodes that have not answered.
    pub(super) unfinished: Vec<String>,
    /// Nodes that have to be asked, in order.
    pub(super) waiting: Vec<Arc<CachedNodeImage>>,
    /// Nodes that were asked and lack a Secret.
    pub(super) without_secret: Vec<Arc<CachedNodeImage>>,
}

impl Counts {
    /// Counts the chosen nodes.
    pub(super) fn of(observed: &Observed, image: &Image, wanted: &[SecretReference]) -> Self {
        let uid = observed.job.metadata.uid.as_deref().unwrap_or_default();
        let mut counts = Self::default();
        for node in &observed.nodes {
            counts.desired += 1;
            let name = node.metadata.name.to_string();
            let Some(tag) = node.tag(&image.name, &image.tag).filter(|tag| is_owner(tag, uid)) else {
                counts.waiting.push(node.clone());
                continue;
            };
            if lacks_secret(node, &image.name, wanted) {
                counts.without_secret.push(node.clone());
            }
            match node.answer(&image.name, tag).map(|answer| &answer.phase) {
                Some(ImagePullPhase::Succeeded) => counts.succeeded += 1,
                Some(ImagePullPhase::Failed) => counts.failed.push(name),
                _ => {
                    counts.active += 1;
                    counts.unfinished.push(name);
                }
            }
        }
        counts.failed.sort();
        counts
    }

    pub(super) fn failed(&self) -> i32 {
        i32::try_from(self.failed.len()).unwrap_or(i32::MAX)
    }
}

/// Whether the job with this UID is among those that asked for the tag.
pub(super) fn is_owner(tag: &ImageTagSpec, uid: &str) -> bool {
    tag.owner_references
        .iter()
        .any(|owner| owner.uid.as_deref() == Some(uid))
}

fn lacks_secret(node: &CachedNodeImage, image: &str, wanted: &[SecretReference]) -> bool {
    let known = node
        .spec
        .images
        .get(image)
        .map(|image| image.pull_secrets.as_slice())
        .unwrap_or_default();
    wanted.iter().any(|wanted| !is_listed(known, wanted))
}

/// Secrets are the same when namespace and name are.
pub(super) fn is_listed(known: &[SecretReference], wanted: &SecretReference) -> bool {
    known
        .iter()
        .any(|known| known.namespace == wanted.namespace && known.name == wanted.name)
}
