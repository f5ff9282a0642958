//! The nodes of a job, found through indexes: a job for a few nodes does not look at all of them.

use super::ImagePullJobs;
use crate::platform::{IMAGES_BY_LABEL, PODS_BY_NAMESPACE};
use kruise_api::{
    cloneset::v1beta1::CloneSet, imagepulljob::v1beta1::ImagePullJob, kind::Kind as _, meta::Owned as _,
    nodeimage::CachedNodeImage, pod::Pod,
};
use kruise_core::{
    imagepulljob::select::{chooses, chooses_pod, is_running},
    shared::update_order::by_priority,
};
use std::{collections::HashSet, sync::Arc};

impl ImagePullJobs {
    /// The chosen nodes, in the order in which they get their turn.
    pub(super) fn nodes(&self, job: &ImagePullJob) -> Vec<Arc<CachedNodeImage>> {
        if job.spec.pod_selector.is_some() {
            return self.nodes_of_pods(job);
        }
        let Some(choice) = &job.spec.selector else {
            return self.images.list();
        };
        if !choice.names.is_empty() {
            let mut names: Vec<&String> = choice.names.iter().collect();
            names.sort();
            names.dedup();
            return names.into_iter().filter_map(|name| self.images.get("", name)).collect();
        }
        // Of the labels that a node must have, the one that the fewest have.
        let labelled = choice.match_labels.iter().map(|(key, value)| {
            let pair = format!("{key}={value}");
            self.images
                .select(&IMAGES_BY_LABEL, &pair, |node| chooses(&job.spec, node))
        });
        let found = labelled.min_by_key(Vec::len);
        found.unwrap_or_else(|| {
            self.images
                .list()
                .into_iter()
                .filter(|node| chooses(&job.spec, node))
                .collect()
        })
    }

    fn nodes_of_pods(&self, job: &ImagePullJob) -> Vec<Arc<CachedNodeImage>> {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let counts = |pod: &Pod| is_running(pod) && chooses_pod(&job.spec, pod);
        let mut pods = self.pods.select(&PODS_BY_NAMESPACE, namespace, counts);
        if let Some(set) = self.owner(job, namespace) {
            let rolling = set.spec.update_strategy.rolling_update.as_ref();
            let priority = rolling.and_then(|rolling| rolling.priority_strategy.as_ref());
            by_priority(&mut pods, priority, |pod, key| pod.metadata.label(key));
        }
        let mut seen = HashSet::new();
        let names = pods.iter().map(|pod| &*pod.spec.node_name);
        let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
        names.into_iter().filter_map(|name| self.images.get("", name)).collect()
    }

    /// The CloneSet for whose update the job pulls.
    fn owner(&self, job: &ImagePullJob, namespace: &str) -> Option<Arc<CloneSet>> {
        let name = job.controlled_by(CloneSet::GROUP, CloneSet::KIND)?;
        let set = self.sets.get(namespace, name)?;
        let mut owners = job.metadata.owner_references.iter().flatten();
        owners
            .any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
            .then_some(set)
    }
}
