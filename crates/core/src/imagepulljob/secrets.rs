//! Secrets for the registry, where daemons may read them.
//!
//! Daemons may read the Secrets of one namespace only. What a job names is copied there, once for all jobs that name it; the copy says where it comes
//! from and which jobs need it, and goes with the last of them.
//!
//! - A Secret that is not there is passed over: the job goes on without it, and gets it when it comes. So is one that is not for a registry:
//!   nobody gets a copy of any other Secret by naming it in a job.
//! - While the namespace is missing, or on its way out, no node is asked. An event says so, and the job looks again.
//! - A job that lives in that namespace needs no copies.
//! - Of several copies of one Secret, as older releases made them, the one that names the job already is taken, otherwise the first by name.
//! - Copies are written as a whole, never patched: two jobs that write at the same time must notice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kruise_api::kind::Kind as _;
use kruise_api::names::{annotation, event, pattern};
use kruise_api::nodeimage::v1beta1::{SecretMode, SecretReference};
use kruise_api::resource::Preconditions;
use kruise_api::secret::Secret;

use super::Observed;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, IdSource, OnFailure, Pace, Phase, Plan, Step, Target};

/// When a job looks again for a namespace that is missing.
const RETRY: Duration = Duration::from_secs(10);
/// Value of the annotation that says how a copy is shared.
const SHARED: &str = "batch";

/// What is known about a job's Secrets.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The namespace that daemons may read.
    pub place: String,
    /// Whether it is there, and stays.
    pub has_place: bool,
    /// The Secrets that the job names, as far as they are there.
    pub sources: BTreeMap<String, Arc<Secret>>,
    /// Copies of these, and copies that name the job; by name.
    pub copies: Vec<Arc<Secret>>,
}

/// `namespace/name`, as copies name their source and the jobs that need them.
pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The Secret that this one is a copy of.
pub fn source(copy: &Secret) -> Option<&str> {
    copy.metadata.annotation(annotation::PULL_SECRET_SOURCE)
}

/// The jobs that need a copy.
pub fn users(copy: &Secret) -> BTreeSet<&str> {
    let listed = copy
        .metadata
        .annotation(annotation::PULL_SECRET_REFERENCES)
        .unwrap_or_default();
    listed.split(',').map(str::trim).filter(|job| !job.is_empty()).collect()
}

/// Plans copies of the Secrets that the job names. Returns the references that nodes get; nothing when there is no place for copies.
pub(super) fn hand_out(observed: &Observed, ids: &mut IdSource, plan: &mut Plan) -> Option<Vec<SecretReference>> {
    let job = &observed.job;
    let secrets = &observed.secrets;
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let us = key(namespace, job.metadata.name.as_deref().unwrap_or_default());
    let mut step = Step::new(Phase::Secrets, Pace::InOrder, OnFailure::Stop);
    let mut references = Vec::new();
    let mut named = BTreeSet::new();
    for name in &job.spec.pull_secrets {
        if !named.insert(name) {
            continue;
        }
        let Some(source) = secrets.sources.get(name) else {
            plan.because(why::Images::SecretMissing { secret: name.clone() });
            continue;
        };
        if !source.is_for_registry() {
            plan.because(why::Images::SecretNotForRegistry { secret: name.clone() });
            continue;
        }
        let mode = if namespace == secrets.place {
            SecretMode::Unset
        } else {
            SecretMode::Batch
        };
        let name = match &mode {
            SecretMode::Unset => name.clone(),
            _ => copied(secrets, namespace, source, &us, ids, &mut step),
        };
        references.push(SecretReference {
            namespace: secrets.place.clone(),
            name,
            mode,
        });
    }
    if !references.is_empty() && !secrets.has_place {
        let namespace = secrets.place.clone();
        let message =
            format!("namespace {namespace}, where daemons read pull Secrets, does not exist or is terminating");
        plan.events
            .push(Event::warning(event::FAILED_SYNC_PULL_SECRETS, message));
        plan.because(why::Images::NamespaceMissing { namespace });
        plan.wake(RETRY);
        return None;
    }
    plan.push(step);
    Some(references)
}

/// Plans the copy of a Secret. Returns its name.
fn copied(
    secrets: &Secrets,
    namespace: &str,
    source: &Secret,
    us: &str,
    ids: &mut IdSource,
    step: &mut Step,
) -> String {
    let from_key = key(namespace, &source.metadata.name);
    let ours = secrets
        .copies
        .iter()
        .filter(|copy| self::source(copy) == Some(&from_key) && !copy.metadata.is_deleting());
    let copy = ours
        .clone()
        .find(|copy| users(copy).contains(us))
        .or_else(|| ours.clone().next());
    let from = Target::of(source);
    let mut annotations = BTreeMap::from([
        (annotation::PULL_SECRET_SOURCE.to_owned(), from_key.clone()),
        (annotation::PULL_SECRET_MODE.to_owned(), SHARED.to_owned()),
        (annotation::PULL_SECRET_REFERENCES.to_owned(), us.to_owned()),
    ]);
    let Some(copy) = copy else {
        let name = pattern::copied_pull_secret(&source.metadata.name, &ids.next_hex());
        let action = Action::CopySecret {
            object: Target::new(Secret::RESOURCE, &secrets.place, &name),
            from: Some(from),
            annotations,
            preconditions: None,
        };
        step.push(Chain::of(action.into()));
        return name;
    };
    let mut all = users(copy);
    if !all.insert(us) && copy.content == source.content {
        return copy.metadata.name.to_string();
    }
    annotations.insert(annotation::PULL_SECRET_REFERENCES.to_owned(), joined(&all));
    // A copy of an older release stays what it is.
    if copy.metadata.annotation(annotation::PULL_SECRET_MODE).is_none() {
        annotations.remove(annotation::PULL_SECRET_MODE);
    }
    let action = Action::CopySecret {
        object: Target::of(&**copy),
        from: Some(from),
        annotations,
        preconditions: Some(Preconditions::unchanged(&copy.metadata)),
    };
    step.push(Chain::of(action.into()));
    copy.metadata.name.to_string()
}

/// Plans that no copy names the job any more; a copy that nobody needs goes.
pub(super) fn take_back(observed: &Observed, plan: &mut Plan) {
    let job = &observed.job;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let us = key(job.metadata.namespace.as_deref().unwrap_or_default(), name);
    let mut step = Step::new(Phase::Secrets, Pace::InOrder, OnFailure::Stop);
    for copy in &observed.secrets.copies {
        let mut rest = users(copy);
        if !rest.remove(us.as_str()) || copy.metadata.is_deleting() {
            continue;
        }
        let object = Target::of(&**copy);
        let unchanged = Preconditions::unchanged(&copy.metadata);
        let action = if rest.is_empty() {
            Action::Delete {
                object,
                preconditions: unchanged,
            }
        } else {
            let references = (annotation::PULL_SECRET_REFERENCES.to_owned(), joined(&rest));
            Action::CopySecret {
                object,
                from: None,
                annotations: BTreeMap::from([references]),
                preconditions: Some(unchanged),
            }
        };
        step.push(Chain::of(action.into()));
    }
    plan.push(step);
}

fn joined(jobs: &BTreeSet<&str>) -> String {
    jobs.iter().copied().collect::<Vec<_>>().join(",")
}
