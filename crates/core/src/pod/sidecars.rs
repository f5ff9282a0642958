//! Containers of SidecarSets are put into the Pods that they apply to: [`select`] says which sets do, [`inject`] what comes of it.
//!
//! Nothing happens to Pods that have ended or are being deleted. Of a set that names a revision for new Pods, that revision has to exist.

use super::{Draft, Env, Missing, PodError};
use crate::shared::fnv;
use crate::sidecarset::inject::{self, InjectError, Injection, Rules};
use crate::sidecarset::select::{self, NamedRevision};
use kruise_api::gates::Gate;
use kruise_api::meta::Object as _;
use kruise_api::namespace::Namespace;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this step has to know.
pub trait SidecarSets {
    /// Returns the sets that can apply to Pods with these labels: all that do, and some that do not.
    fn candidates(&self, _namespace: &str, _labels: &BTreeMap<&str, &str>) -> Result<Vec<Arc<SidecarSet>>, Missing> {
        Ok(Vec::new())
    }

    /// Returns a namespace; nothing when there is none.
    fn namespace(&self, _name: &str) -> Result<Option<Arc<Namespace>>, Missing> {
        Ok(None)
    }

    /// Returns a ControllerRevision of the manager's namespace; nothing when there is none.
    fn revision(&self, _name: &str) -> Result<Option<Arc<ControllerRevision>>, Missing> {
        Ok(None)
    }

    /// Returns the ControllerRevisions of a set.
    fn revisions_of(&self, _set: &str) -> Result<Vec<Arc<ControllerRevision>>, Missing> {
        Ok(Vec::new())
    }
}

pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    if pod.head().is_over() {
        return Ok(());
    }
    let namespace = pod.head().namespace().unwrap_or(env.namespace);
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let labels = pod.labels();
    let mut sets = env.view.candidates(namespace, &labels)?;
    if sets.is_empty() {
        return Ok(());
    }
    retain_applying(&mut sets, namespace, &labels, env)?;
    if sets.is_empty() {
        return Ok(());
    }
    let mut injections = Vec::with_capacity(sets.len());
    for set in &sets {
        injections.push(injection(set, &labels, env)?);
    }
    let rules = Rules {
        now: env.now,
        sort_containers: env.gates.enabled(Gate::EnableSortSidecarContainerByName),
    };
    inject::inject(pod.whole()?, &injections, rules)?;
    Ok(())
}

fn retain_applying(
    sets: &mut Vec<Arc<SidecarSet>>,
    namespace: &str,
    labels: &BTreeMap<&str, &str>,
    env: &Env<'_>,
) -> Result<(), PodError> {
    let pod_label = |key: &str| labels.get(key).copied();
    sets.retain(|set| !set.spec.injection_strategy.paused && select::selects_pod(set, pod_label));
    // Most sets do not care for labels of namespaces.
    let read = if sets.iter().any(|set| select::looks_at_namespace_labels(set)) {
        env.view.namespace(namespace)?
    } else {
        None
    };
    sets.retain(|set| {
        let known = read.is_some() || !select::looks_at_namespace_labels(set);
        let label = |key: &str| read.as_ref().and_then(|read| read.metadata.label(key));
        known && select::selects_namespace(set, namespace, label)
    });
    select::settle(sets);
    Ok(())
}

fn injection<'a>(set: &'a SidecarSet, labels: &BTreeMap<&str, &str>, env: &Env<'_>) -> Result<Injection<'a>, PodError> {
    let Some(named) = select::named_revision(set) else {
        return Ok(Injection::current(set));
    };
    let found = match named {
        NamedRevision::Name(name) => env.view.revision(name)?,
        NamedRevision::CustomVersion(_) => {
            let all = env.view.revisions_of(set.name())?;
            select::find_revision(set.name(), named, &all).cloned()
        }
    };
    let Some(revision) = found else {
        return Err(PodError::Sidecars(InjectError::NoRevision {
            set: set.name().to_owned(),
            revision: named.to_string(),
        }));
    };
    // Another draw for each set.
    let chance = env.chance.rotate_left(fnv::fnv1(set.name().as_bytes()) % 64) % 1_000_000_007;
    if select::gets_named_revision(set, |key| labels.get(key).copied(), chance) {
        return Ok(Injection::restored(set, &revision)?);
    }
    Ok(Injection::current(set))
}
