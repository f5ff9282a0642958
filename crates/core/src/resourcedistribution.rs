//! ResourceDistribution: copies one Secret or ConfigMap into many namespaces and keeps the copies in step.
//!
//! 1. The namespaces are those listed, which need not exist yet, and those whose labels match, or all; without those excluded, and never `kube-system`
//!    and `kube-public` ([`targets`]).
//! 2. A copy says where it comes from and belongs to the distribution; both go together ([`manifest`]). One that is missing is made.
//! 3. A copy whose content is no longer that of the resource is replaced. Labels, annotations and finalizers that others gave it stay. Metadata alone is
//!    never a reason to write.
//! 4. An object of the same kind and name that somebody else made is in the way. It is never touched, even when it says the same.
//! 5. Nothing is made in a namespace that is missing or on its way out.
//! 6. Copies in namespaces that are no targets any more are deleted.
//! 7. The status counts namespaces and says for each thing that can go wrong where it did ([`status`]). A condition that is `True` is bad news.
//!
//! Nothing here ever sees the content of an object in the cluster, only whether it is the one that is wanted.

mod admit;
pub mod convert;
pub mod manifest;
mod status;
pub mod targets;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::configmap::ConfigMap;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{Meta, OwnerReference, Uid, group_of};
use kruise_api::namespace::Namespace;
use kruise_api::resource::Preconditions;
use kruise_api::resourcedistribution::DistributionConditionType as Fault;
use kruise_api::resourcedistribution::v1beta1::ResourceDistribution;
use kruise_api::secret::Secret;
use serde_json::json;

use crate::plan::why;
use crate::plan::{
    Action, Body, Chain, Env, Failure, FailureClass, OnFailure, Outcome, Pace, Phase, Plan, PodNames, Step, Target,
};
pub use admit::Submitted;
use manifest::{Content, Manifest};
use status::Report;

/// A distribution and what it depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The distribution.
    pub distribution: Arc<ResourceDistribution>,
    /// All namespaces.
    pub namespaces: Vec<Arc<Namespace>>,
    /// The objects of the resource's kind and name, by namespace.
    pub existing: BTreeMap<String, Existing>,
    /// What came of the last plan.
    pub last: Outcome,
}

/// An object of the resource's kind and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Existing {
    /// UID.
    pub uid: Uid,
    /// Its version, as the server counts.
    pub resource_version: u64,
    /// Who manages it.
    pub controller: Option<OwnerReference>,
    /// It is on its way out.
    pub is_deleting: bool,
    /// What it says.
    pub content: Content,
}

impl Existing {
    fn new(meta: &Meta, content: Content) -> Self {
        Self {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            controller: meta.controller().cloned(),
            is_deleting: meta.is_deleting(),
            content,
        }
    }

    /// Whether the distribution manages it. Without a UID, as older releases may have left it, kind and name count.
    fn belongs_to(&self, distribution: &ResourceDistribution) -> bool {
        let Some(owner) = &self.controller else { return false };
        let meta = &distribution.metadata;
        let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
        if owner.uid.is_empty() || uid.is_empty() {
            return &*owner.kind == ResourceDistribution::KIND
                && group_of(&owner.api_version) == ResourceDistribution::GROUP
                && Some(&*owner.name) == meta.name.as_deref();
        }
        owner.uid == uid
    }

    fn unchanged(&self) -> Preconditions {
        Preconditions::uid(self.uid.to_string()).at(self.resource_version.to_string())
    }
}

impl From<&Secret> for Existing {
    fn from(secret: &Secret) -> Self {
        Self::new(&secret.metadata, Content::of_secret(secret))
    }
}

impl From<&ConfigMap> for Existing {
    fn from(map: &ConfigMap) -> Self {
        Self::new(&map.metadata, Content::of_config_map(map))
    }
}

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// How soon it is told what was refused.
const TELL: Duration = Duration::from_secs(1);
const NAMESPACE: &str = "namespace not found or is terminating";
const CONFLICT: &str = "conflict with existing resources because of the same namespace, group, version, kind and name";

/// What to do for a distribution now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let distribution = &*observed.distribution;
    let mut plan = Plan::default();
    if distribution.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    let manifest = match Manifest::read(&distribution.spec.resource) {
        Ok(manifest) => manifest,
        Err(unfit) => {
            let message = format!("spec.resource: {unfit}");
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    let mut round = Round::new(observed, &manifest);
    let present: BTreeMap<&str, &Namespace> = observed
        .namespaces
        .iter()
        .map(|namespace| (&*namespace.metadata.name, &**namespace))
        .collect();
    let is_usable = |name: &str| {
        present
            .get(name)
            .is_some_and(|namespace| !namespace.metadata.is_deleting())
    };
    let matched = targets::matched(&distribution.spec.targets, &observed.namespaces);
    for &name in &matched {
        if is_usable(name) {
            round.keep(name);
        } else {
            round.report.fail(Fault::NamespaceNotExists, name, NAMESPACE);
        }
    }
    for (name, existing) in &observed.existing {
        if !matched.contains(&**name) && is_usable(name) {
            round.clean_up(name, existing);
        }
    }
    let Round {
        made,
        changed,
        deleted,
        report,
        ..
    } = round;
    for step in [made, changed, deleted] {
        plan.push(step);
    }
    report.explain(&manifest, &mut plan);
    plan.status = report.write(distribution, matched.len(), env.now);
    // What failed before is reported as failed until it is seen to have gone well.
    plan.status_if_all_done = observed.last.failures.is_empty();
    if plan.status_if_all_done && plan.writes().next().is_some() {
        // What is wrong in itself is not tried again for long, but has to be told.
        plan.wake(TELL);
    }
    plan
}

/// What is planned namespace by namespace.
struct Round<'a> {
    observed: &'a Observed,
    manifest: &'a Manifest,
    content: Content,
    common: Arc<serde_json::Value>,
    /// Failures of the last plan, by what they were about.
    failures: BTreeMap<(Phase, &'a str), &'a Failure>,
    made: Step,
    changed: Step,
    deleted: Step,
    report: Report,
}

impl<'a> Round<'a> {
    fn new(observed: &'a Observed, manifest: &'a Manifest) -> Self {
        let step = |phase| Step::new(phase, Pace::Few, OnFailure::GoOn);
        let about_copies = observed
            .last
            .failures
            .iter()
            .filter(|failure| failure.object.resource == manifest.resource());
        Self {
            observed,
            manifest,
            content: manifest.content(),
            common: Arc::new(manifest.copy_for(&observed.distribution)),
            failures: about_copies
                .map(|failure| ((failure.phase, failure.object.namespace.as_str()), failure))
                .collect(),
            made: step(Phase::Distribute),
            changed: step(Phase::Update),
            deleted: step(Phase::Housekeeping),
            report: Report::default(),
        }
    }

    fn target(&self, namespace: &str) -> Target {
        Target::new(self.manifest.resource(), namespace, self.manifest.name())
    }

    fn body(&self, namespace: &str) -> Body {
        Body::new(self.common.clone(), json!({"metadata": {"namespace": namespace}}))
    }

    /// The last failure in a namespace that is worth a word.
    fn failure(&self, phase: Phase, namespace: &str) -> Option<&'a Failure> {
        let failure = self.failures.get(&(phase, namespace)).copied();
        failure.filter(|failure| !failure.class.is_silent())
    }

    /// Sees to the copy in a namespace that is to have one.
    fn keep(&mut self, namespace: &str) {
        let object = self.target(namespace);
        match self.observed.existing.get(namespace) {
            None => {
                match self.failure(Phase::Distribute, namespace) {
                    // Somebody was faster, and the cache does not show it yet.
                    Some(failure) if failure.class == FailureClass::Exists => {
                        self.report.fail(Fault::ConflictOccurred, namespace, CONFLICT);
                    }
                    Some(failure) => self
                        .report
                        .fail(Fault::CreateResourceFailed, namespace, &failure.message),
                    None => {}
                }
                let body = self.body(namespace);
                self.made.push(Chain::of(Action::Create { object, body }.into()));
            }
            Some(existing) if !existing.belongs_to(&self.observed.distribution) => {
                self.report.fail(Fault::ConflictOccurred, namespace, CONFLICT);
            }
            Some(existing) if existing.content == self.content || existing.is_deleting => {}
            Some(existing) => {
                if let Some(failure) = self.failure(Phase::Update, namespace) {
                    self.report
                        .fail(Fault::UpdateResourceFailed, namespace, &failure.message);
                }
                let action = Action::Replace {
                    object,
                    body: self.body(namespace),
                    preconditions: existing.unchanged(),
                };
                self.changed.push(Chain::of(action.into()));
            }
        }
    }

    /// Takes the copy out of a namespace that is to have none.
    fn clean_up(&mut self, namespace: &str, existing: &Existing) {
        if existing.is_deleting || !existing.belongs_to(&self.observed.distribution) {
            return;
        }
        if let Some(failure) = self.failure(Phase::Housekeeping, namespace) {
            self.report
                .fail(Fault::DeleteResourceFailed, namespace, &failure.message);
        }
        let action = Action::delete(self.target(namespace), existing.unchanged());
        self.deleted.push(Chain::of(action.into()));
    }
}

impl Report {
    /// Adds why copies are not where they should be.
    fn explain(&self, manifest: &Manifest, plan: &mut Plan) {
        let names = |fault: &Fault| self.namespaces(fault).collect::<PodNames>();
        let missing = names(&Fault::NamespaceNotExists);
        if !missing.is_empty() {
            plan.because(why::Distribution::NamespacesMissing { namespaces: missing });
        }
        let foreign = names(&Fault::ConflictOccurred);
        if !foreign.is_empty() {
            plan.because(why::Distribution::ForeignObjects {
                object: format!("{} {}", manifest.resource().kind, manifest.name()),
                namespaces: foreign,
            });
        }
        for fault in [
            Fault::CreateResourceFailed,
            Fault::UpdateResourceFailed,
            Fault::DeleteResourceFailed,
        ] {
            if let Some(message) = self.last(&fault) {
                plan.because(why::Distribution::CopiesRefused {
                    message: message.to_owned(),
                    namespaces: names(&fault),
                });
            }
        }
    }
}
