//! The Pods that a set manages, and where each of them stands.
//!
//! A Pod is managed when the set selects it and its namespace, it has not ended and is not on its way out, it says that the set was injected, and it has every container
//! of the set by name; a container that is updated hot is there twice. Init containers are not asked for.
//!
//! - *Updated*: the Pod says that it is at the hash of the set. Nothing else counts; an image that somebody changed by hand is not noticed.
//! - *Consistent*: its containers run what its spec names ([`is_consistent`]).
//! - *Ready*: it runs and is ready, and of each pair that is updated hot the spare has the empty image again.
//!
//! A container of the set *is another's* when the record of the Pod does not have it among those that the set brought: one of its name was there before. It is not touched.

use std::collections::BTreeMap;

use kruise_api::names::{annotation, pattern};
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;
use kruise_api::sidecarset::container::{SidecarContainer, UpgradeType};
use kruise_api::sidecarset::v1beta1::SidecarSet;

use super::consistency::is_consistent;
use super::hash::Hashes;
use super::hot_upgrade::Pair;
use super::observed::Observed;
use super::records::{self, Record, UpdateState};
use super::select::{selects_namespace, selects_pod};
use crate::plan::Env;
use crate::shared::availability::{READY, is_active};

/// One look at a SidecarSet.
pub(super) struct Snapshot<'a> {
    pub(super) observed: &'a Observed,
    pub(super) set: &'a SidecarSet,
    pub(super) name: &'a str,
    pub(super) env: &'a Env,
    pub(super) hashes: Hashes,
    /// Its containers.
    pub(super) sidecars: Vec<Sidecar<'a>>,
    /// The Pods that it manages, by namespace and name.
    pub(super) members: Vec<Member<'a>>,
}

/// A container of the set.
pub(super) struct Sidecar<'a> {
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    /// The two containers that it is in Pods, when it is updated hot.
    pub(super) pair: Option<Pair<'a>>,
}

impl<'a> Sidecar<'a> {
    pub(super) fn of(container: &'a SidecarContainer) -> Self {
        let strategy = &container.policy.upgrade_strategy;
        let is_hot = strategy.upgrade_type == UpgradeType::HotUpgrade;
        Self {
            name: container.name(),
            image: container.image(),
            pair: is_hot.then(|| Pair {
                names: pattern::hot_upgrade_containers(container.name()),
                empty_image: &strategy.hot_upgrade_empty_image,
            }),
        }
    }

    /// The names of its containers in Pods.
    pub(super) fn container_names(&self) -> impl Iterator<Item = &str> {
        let pair = self.pair.iter().flat_map(|pair| pair.names.iter().map(String::as_str));
        pair.chain(self.pair.is_none().then_some(self.name))
    }

    pub(super) fn has(&self, container: &str) -> bool {
        self.container_names().any(|name| name == container)
    }
}

/// A Pod that the set manages.
#[expect(clippy::struct_excessive_bools, reason = "they are asked for one by one")]
pub(super) struct Member<'a> {
    pub(super) pod: &'a Pod,
    /// What it says about the set; why that cannot be read.
    pub(super) record: Result<Option<Record>, String>,
    /// What ran before the updates of the set.
    pub(super) state: Result<Option<UpdateState>, String>,
    /// Which container works now, by sidecar that is updated hot.
    pub(super) working: BTreeMap<String, String>,
    pub(super) is_updated: bool,
    /// Nothing but images differs.
    pub(super) is_upgradable: bool,
    pub(super) is_consistent: bool,
    pub(super) is_ready: bool,
}

impl Member<'_> {
    /// `namespace/name`.
    pub(super) fn name(&self) -> String {
        full_name(self.pod)
    }

    /// Whether the set put a container in, by its declared name. The oldest records do not say which, and are taken to mean all.
    pub(super) fn has_brought(&self, sidecar: &str) -> bool {
        let record = self.record.as_ref().ok().and_then(Option::as_ref);
        let brought = record.and_then(|record| record.sidecar_list.as_ref());
        brought.is_none_or(|brought| brought.iter().any(|name| name == sidecar))
    }

    /// Whether these containers run what the spec names.
    pub(super) fn runs(&self, names: impl Fn(&str) -> bool) -> bool {
        let state = self.state.as_ref().map(Option::as_ref).map_err(|_| ());
        is_consistent(self.pod, state, names)
    }

    pub(super) fn image(&self, container: &str) -> &str {
        let mut containers = self.pod.spec.template.containers.iter();
        containers
            .find(|known| known.name == container)
            .map_or("", |known| &*known.image)
    }

    pub(super) fn is_container_ready(&self, container: &str) -> bool {
        let mut statuses = self.pod.status.container_statuses.iter();
        statuses.any(|status| status.name == container && status.ready)
    }

    pub(super) fn image_id(&self, container: &str) -> String {
        let mut statuses = self.pod.status.container_statuses.iter();
        let status = statuses.find(|status| status.name == container);
        status.map(|status| status.image_id.to_string()).unwrap_or_default()
    }
}

/// `namespace/name`.
pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}

/// Running and ready, by what the kubelet says.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == PodPhase::Running && pod.status.is_true(READY) && !pod.metadata.is_deleting()
}

impl<'a> Snapshot<'a> {
    pub(super) fn of(observed: &'a Observed, env: &'a Env) -> Self {
        let set = &*observed.set;
        let mut this = Self {
            observed,
            set,
            name: set.metadata.name.as_deref().unwrap_or_default(),
            env,
            hashes: Hashes::of_set(set),
            sidecars: set.spec.containers.iter().map(Sidecar::of).collect(),
            members: Vec::new(),
        };
        let mut pods: Vec<&Pod> = observed
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| this.manages(pod))
            .collect();
        pods.sort_by(|one, other| {
            let key = |pod: &'a Pod| (&*pod.metadata.namespace, &*pod.metadata.name);
            key(one).cmp(&key(other))
        });
        this.members = pods.into_iter().filter_map(|pod| this.member(pod)).collect();
        this
    }

    /// Whether the set selects a Pod into which it was injected, and which lives.
    fn manages(&self, pod: &Pod) -> bool {
        let namespace = &*pod.metadata.namespace;
        let known = self.observed.namespaces.get(namespace);
        is_active(pod)
            && selects_pod(self.set, |key| pod.metadata.label(key))
            && selects_namespace(self.set, namespace, |key| {
                known.and_then(|known| known.metadata.label(key))
            })
            && records::injected(pod).any(|name| name == self.name)
    }

    fn member(&self, pod: &'a Pod) -> Option<Member<'a>> {
        let containers = &pod.spec.template.containers;
        let working = records::working_containers(pod).unwrap_or_default();
        let has_all = self.sidecars.iter().all(|sidecar| {
            let mut names = sidecar.container_names();
            names.all(|name| containers.iter().any(|container| container.name == name))
                && (sidecar.pair.is_none() || working.contains_key(sidecar.name))
        });
        if !has_all {
            return None;
        }
        let record = records::record(pod, annotation::SIDECAR_SET_HASH, self.name);
        let without_image = records::record(pod, annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE, self.name);
        let is_at = |record: &Result<Option<Record>, String>, hash: &str| {
            record
                .as_ref()
                .is_ok_and(|record| record.as_ref().map_or("", |record| &record.hash) == hash)
        };
        let mut member = Member {
            pod,
            is_updated: is_at(&record, &self.hashes.hash),
            is_upgradable: is_at(&without_image, &self.hashes.without_image),
            record: without_image.and(record),
            state: records::update_state(pod, self.name),
            working,
            is_consistent: false,
            is_ready: false,
        };
        member.is_consistent = member.runs(|name| self.sidecars.iter().any(|sidecar| sidecar.has(name)));
        let is_reset = |pair: &Pair<'_>, name: &str| member.image(pair.spare(&member, name)) == pair.empty_image;
        member.is_ready = is_running_and_ready(pod)
            && self
                .sidecars
                .iter()
                .filter(|sidecar| member.has_brought(sidecar.name))
                .all(|sidecar| sidecar.pair.as_ref().is_none_or(|pair| is_reset(pair, sidecar.name)));
        Some(member)
    }
}
