//! Everything that the decisions of one round look at, seen at the same time.

use std::collections::BTreeMap;

use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::meta::Uid;
use kruise_api::names::{annotation, label};
use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::Lifecycle;

use super::counts::Desired;
use super::nodes::{NodePods, by_node};
use super::observed::Observed;
use super::{node_requirements, revisions};
use crate::plan::{Env, PodNames};
use crate::shared::availability::{is_ready, ready_for};
use crate::shared::lifecycle::state;
use crate::shared::membership::{Member, Membership};
use crate::shared::owner::{Owner, is_controlled_by};
use crate::shared::revision::{self, Revisions};
use crate::shared::selector;

/// One look at a DaemonSet.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    /// What was seen.
    pub(super) observed: &'a Observed,
    /// The set.
    pub(super) set: &'a DaemonSet,
    /// Its UID.
    pub(super) uid: Uid,
    /// The set as owner of what is made.
    pub(super) owner: Owner,
    /// The surroundings.
    pub(super) env: &'a Env,
    /// The revisions.
    pub(super) revisions: Revisions<'a>,
    /// The hash of the update revision, with which Pods tell that they are at it.
    pub(super) hash: String,
    /// What the user asked for, in numbers.
    pub(super) desired: Desired,
    /// All nodes, and the set's Pods on each.
    pub(super) nodes: BTreeMap<&'a str, NodePods<'a>>,
    /// Pods that its selector no longer chooses: they are released.
    pub(super) released: Vec<&'a Pod>,
    /// Pods that are nobody's: they are adopted.
    pub(super) adoptable: Vec<&'a Pod>,
    /// The set's Pods that cannot be read.
    pub(super) unreadable: PodNames,
}

impl<'a> Snapshot<'a> {
    /// Looks at everything once. Fails with a sentence when the set cannot be understood.
    pub(super) fn of(observed: &'a Observed, env: &'a Env) -> Result<Self, String> {
        let set = &*observed.set;
        let uid = Uid::from(set.metadata.uid.as_deref().unwrap_or_default());
        if uid.is_empty() {
            return Err("the set has no UID".to_owned());
        }
        let owner = Owner::of::<DaemonSet>(&set.metadata);
        let requirements = node_requirements(set)?;
        let revisions = revisions::revisions(observed, &owner)?;
        let hash = revisions::hash(revisions.update.object()).to_owned();
        let selects = |pod: &Pod| selector::matches(&set.spec.selector, |key| pod.metadata.label(key));
        let pods = observed.pods.iter().chain(&observed.orphans).map(|pod| &**pod);
        let Membership {
            members,
            released,
            adoptable,
        } = Membership::of(pods, &uid, selects);
        let members = members.into_iter().map(|pod| member(set, pod, &hash, env)).collect();
        let nodes = by_node(&observed.nodes, members, &requirements);
        let runs = nodes.values().filter(|node| node.runs()).count();
        let unreadable = observed.unreadable.iter().map(|head| &head.metadata);
        let unreadable = unreadable.filter(|meta| is_controlled_by(meta, &uid));
        Ok(Self {
            unreadable: unreadable.map(|meta| &*meta.name).collect(),
            desired: Desired::of(&set.spec, i32::try_from(runs).unwrap_or(i32::MAX)),
            observed,
            set,
            uid,
            owner,
            env,
            revisions,
            hash,
            nodes,
            released: released.into_iter().filter(|pod| !pod.metadata.is_deleting()).collect(),
            adoptable,
        })
    }

    /// The set's Pods that are on nodes, or on their way there, by node; terminating ones too.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member<'a>> {
        self.nodes.values().flat_map(|node| &node.pods)
    }

    /// The Pod has the hash of the update revision. It may be updated without, see [`template_generation`].
    pub(super) fn has_hash(&self, member: &Member<'_>) -> bool {
        revision::of_pod(member.pod) == self.hash
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> &'a str {
        self.set.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The set's hooks.
    pub(super) fn lifecycle(&self) -> Option<&'a Lifecycle> {
        self.set.spec.lifecycle.as_ref()
    }

    /// The labels that tell a Pod's revision.
    pub(super) fn pod_labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(label::REVISION.to_owned(), self.hash.clone())]);
        if let Some(generation) = template_generation(self.set) {
            labels.insert(label::DAEMON_SET_TEMPLATE_GENERATION.to_owned(), generation.to_string());
        }
        labels
    }
}

/// The generation of the template, which sets have that come from the first DaemonSets of Kubernetes.
fn template_generation(set: &DaemonSet) -> Option<i64> {
    let annotations = set.metadata.annotations.as_ref()?;
    annotations
        .get(annotation::DAEMON_SET_TEMPLATE_GENERATION)?
        .parse()
        .ok()
}

fn member<'a>(set: &DaemonSet, pod: &'a Pod, hash: &str, env: &Env) -> Member<'a> {
    let generation = || {
        let generation = template_generation(set)?.to_string();
        let label = pod.metadata.label(label::DAEMON_SET_TEMPLATE_GENERATION)?;
        Some(label == generation)
    };
    Member {
        pod,
        is_updated: revision::of_pod(pod) == hash || generation() == Some(true),
        state: state(pod),
        // Nobody names Pods of a DaemonSet for deletion.
        is_specified_delete: false,
        is_ready: is_ready(pod),
        availability: ready_for(pod, set.spec.min_ready_seconds, env.now),
    }
}
