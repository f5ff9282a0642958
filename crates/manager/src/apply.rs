//! Doing what a plan says, and nothing else.
//!
//! Every write goes through the writer of the controller; what it did is remembered in its [`Expectations`], so that the next
//! decision waits until the cache shows it. What failed comes back as the [`Outcome`], which the next plan reads.

mod secret;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kruise_api::names::group;
use kruise_core::plan::{
    self, Action, Chain, Failure, FailureClass, ObjectKind, OnFailure, Outcome, Pace, Part, Phase, Plan, Step, Tone,
};
use kruise_runtime::cache::{Position, Version};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::{EventType, Regarding};
use kruise_runtime::expectations::{Expectations, View};
use kruise_runtime::resource::{ObjectKey, Resource};
use kruise_runtime::writer::{DeleteOptions, Patch, Preconditions, Target, slow_start};

use crate::platform::Workplace;

static POD: Resource = Resource::namespaced("", "v1", "Pod", "pods");
static CLAIM: Resource = Resource::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
static REVISION: Resource = Resource::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
static IMAGE_PULL_JOB: Resource = Resource::namespaced(group::APPS, "v1beta1", "ImagePullJob", "imagepulljobs");
static SECRET: Resource = Resource::namespaced("", "v1", "Secret", "secrets");
static IMAGE_LIST_PULL_JOB: Resource =
    Resource::namespaced(group::APPS, "v1beta1", "ImageListPullJob", "imagelistpulljobs");
static NODE_IMAGE: Resource = Resource::cluster(group::APPS, "v1beta1", "NodeImage", "nodeimages");
static CONTAINER_RECREATE_REQUEST: Resource = Resource::namespaced(
    group::APPS,
    "v1beta1",
    "ContainerRecreateRequest",
    "containerrecreaterequests",
);
static CLONE_SET: Resource = Resource::namespaced(group::APPS, "v1beta1", "CloneSet", "clonesets");

/// How the API server calls a kind that plans write.
pub(crate) fn resource(kind: ObjectKind) -> &'static Resource {
    match kind {
        ObjectKind::Pod => &POD,
        ObjectKind::PersistentVolumeClaim => &CLAIM,
        ObjectKind::ControllerRevision => &REVISION,
        ObjectKind::Secret => &SECRET,
        ObjectKind::ImagePullJob => &IMAGE_PULL_JOB,
        ObjectKind::ImageListPullJob => &IMAGE_LIST_PULL_JOB,
        ObjectKind::NodeImage => &NODE_IMAGE,
        ObjectKind::ContainerRecreateRequest => &CONTAINER_RECREATE_REQUEST,
        ObjectKind::CloneSet => &CLONE_SET,
    }
}

/// Chains of one step under way at the same time. The writer has a limit of its own that follows what the server can take.
const AT_ONCE: usize = 256;

/// Applies the plans of one controller.
pub(crate) struct Applier {
    place: Arc<Workplace>,
    /// Where writes of a kind become visible. A kind that is not watched is not waited for.
    views: HashMap<ObjectKind, SharedView>,
}

/// A view of any store.
#[derive(Clone)]
struct SharedView(Arc<dyn View>);

impl View for SharedView {
    fn position(&self) -> Position {
        self.0.position()
    }

    fn seen(&self, namespace: &str, name: &str) -> Option<Version> {
        self.0.seen(namespace, name)
    }
}

/// What came of applying a plan.
pub(crate) struct Applied {
    /// For the next plan.
    pub(crate) outcome: Outcome,
    /// For the queue: when to look again, or what went wrong.
    pub(crate) result: Result<Option<Duration>, Error>,
}

impl Applier {
    pub(crate) fn new(place: Arc<Workplace>) -> Self {
        Self {
            place,
            views: HashMap::new(),
        }
    }

    /// Writes of a kind are waited for until this store shows them.
    #[must_use]
    pub(crate) fn watching(mut self, kind: ObjectKind, view: impl View + 'static) -> Self {
        self.views.insert(kind, SharedView(Arc::new(view)));
        self
    }

    /// Applies a plan on behalf of `key`; events are told about `regarding`.
    pub(crate) async fn apply(&self, key: &ObjectKey, regarding: &Regarding, plan: &Plan) -> Applied {
        let round = Round {
            applier: self,
            key,
            regarding,
        };
        for event in &plan.events {
            round.tell(event, None);
        }
        let mut failed = Vec::new();
        for step in &plan.actions {
            let failures = round.step(step).await;
            let stop = failures.iter().any(|failed| failed.stops(step));
            failed.extend(failures);
            if stop {
                break;
            }
        }
        if let Some(status) = &plan.status
            && let Err(error) = round.write(status).await
        {
            failed.push(Failed {
                phase: Phase::Housekeeping,
                object: status.object().clone(),
                error,
            });
        }
        let outcome = Outcome {
            failures: failed.iter().map(Failed::told).collect(),
            refused: Vec::new(),
        };
        let result = match worst(failed) {
            Some(error) => Err(error),
            None => Ok(plan.wake_after),
        };
        Applied { outcome, result }
    }
}

/// A write that failed.
struct Failed {
    phase: Phase,
    object: plan::Target,
    error: Error,
}

impl Failed {
    /// Nothing more of the step is begun, and no further step.
    fn stops(&self, step: &Step) -> bool {
        match step.on_failure {
            OnFailure::Stop => true,
            OnFailure::Skip => !class(&self.error).is_passing(),
            OnFailure::GoOn => false,
        }
    }

    fn told(&self) -> Failure {
        Failure {
            phase: self.phase,
            object: self.object.clone(),
            class: class(&self.error),
            message: self.error.to_string(),
        }
    }
}

fn class(error: &Error) -> FailureClass {
    match error.class() {
        Class::Conflict if error.is_already_exists() => FailureClass::Exists,
        Class::Conflict => FailureClass::Conflict,
        Class::Transient => FailureClass::Transient,
        Class::Denied => FailureClass::Denied,
        Class::Permanent => FailureClass::Permanent,
        Class::Gone => FailureClass::Gone,
    }
}

/// The error that decides when the object is looked at again: one that passes by itself goes before one that does not, so that a
/// single bad object never keeps the others waiting.
fn worst(failed: Vec<Failed>) -> Option<Error> {
    failed
        .into_iter()
        .map(|failed| failed.error)
        .min_by_key(|error| match error.class() {
            Class::Conflict | Class::Gone => 0,
            Class::Transient => 1,
            Class::Denied => 2,
            Class::Permanent => 3,
        })
}

/// The application of one plan.
struct Round<'a> {
    applier: &'a Applier,
    key: &'a ObjectKey,
    regarding: &'a Regarding,
}

impl Round<'_> {
    async fn step(&self, step: &Step) -> Vec<Failed> {
        let results: Vec<Result<(), Failed>> = match step.pace {
            Pace::InOrder => {
                let mut results = Vec::new();
                for chain in &step.chains {
                    let result = self.chain(step.phase, chain).await;
                    let stop = result.as_ref().is_err_and(|failed| failed.stops(step));
                    results.push(result);
                    if stop {
                        break;
                    }
                }
                results
            }
            Pace::Bounded => {
                let stopped = AtomicBool::new(false);
                let chains: Vec<_> = step
                    .chains
                    .iter()
                    .map(|chain| self.unless(&stopped, step, chain))
                    .collect();
                stream::iter(chains).buffer_unordered(AT_ONCE).collect().await
            }
            Pace::SlowStart => {
                let chains = step.chains.iter().map(|chain| self.chain(step.phase, chain)).collect();
                slow_start(chains, |chain| chain).await.tried
            }
        };
        results.into_iter().filter_map(Result::err).collect()
    }

    /// One of several chains that are under way at the same time; not begun once another has failed.
    async fn unless(&self, stopped: &AtomicBool, step: &Step, chain: &Chain) -> Result<(), Failed> {
        if stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = self.chain(step.phase, chain).await;
        if result.as_ref().is_err_and(|failed| failed.stops(step)) {
            stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    async fn chain(&self, phase: Phase, chain: &Chain) -> Result<(), Failed> {
        for write in &chain.writes {
            match self.write(&write.action).await {
                Ok(()) => {
                    if let Some(event) = &write.succeeded {
                        self.tell(event, None);
                    }
                }
                Err(error) => {
                    if let Some(event) = &write.failed
                        && !class(&error).is_passing()
                    {
                        self.tell(event, Some(&error));
                    }
                    return Err(Failed {
                        phase,
                        object: write.action.object().clone(),
                        error,
                    });
                }
            }
        }
        Ok(())
    }

    async fn write(&self, action: &Action) -> Result<(), Error> {
        let writer = self.applier.place.writer();
        let object = action.object();
        let place = Target::new(resource(object.kind), &object.namespace, &object.name);
        match action {
            Action::Create { body, .. } => {
                let created = writer.create(place.resource, place.namespace, body.text()).await;
                self.expect(object, |expectations, view, key| match &created {
                    Ok(written) => expectations.created(self.key, view, &object.namespace, written),
                    Err(error) if error.may_have_applied() || error.is_already_exists() => {
                        expectations.maybe_created(self.key, view, key);
                    }
                    Err(_) => {}
                });
                created.map(drop)
            }
            Action::Patch {
                part,
                patch,
                preconditions,
                ..
            } => {
                let place = match part {
                    Part::Object => place,
                    Part::Status => place.status(),
                    Part::Resize => place.part("resize"),
                };
                let patch = match patch.clone() {
                    plan::Patch::Merge(document) => Patch::Merge(document),
                    plan::Patch::Strategic(document) => Patch::Strategic(document),
                };
                let written = writer.patch(&place, patch, &conditions(preconditions)).await?;
                self.expect(object, |expectations, view, _| {
                    expectations.changed(self.key, view, &object.namespace, &written);
                });
                Ok(())
            }
            Action::CopySecret {
                from,
                annotations,
                preconditions,
                ..
            } => {
                let copy = secret::Copy {
                    object,
                    from: from.as_ref(),
                    annotations,
                    preconditions: preconditions.as_ref(),
                };
                if let Some(written) = copy.write(&self.applier.place).await? {
                    self.expect(object, |expectations, view, _| {
                        expectations.changed(self.key, view, &object.namespace, &written);
                    });
                }
                Ok(())
            }
            Action::Delete { preconditions, .. } | Action::Evict { preconditions, .. } => {
                let options = DeleteOptions {
                    preconditions: conditions(preconditions),
                    ..DeleteOptions::default()
                };
                let deleted = if matches!(action, Action::Evict { .. }) {
                    writer.evict(&place, &options).await
                } else {
                    writer.delete(&place, &options).await
                };
                let uid = preconditions.uid.as_deref().unwrap_or_default();
                self.expect(object, |expectations, view, key| match &deleted {
                    Ok(_) => expectations.deleted(self.key, view, key, uid),
                    Err(error) if error.may_have_applied() => expectations.maybe_deleted(self.key, view, key, uid),
                    Err(_) => {}
                });
                match deleted {
                    // It is gone, which is what was wanted.
                    Err(error) if error.class() == Class::Gone => Ok(()),
                    other => other.map(drop),
                }
            }
        }
    }

    fn expect(&self, object: &plan::Target, remember: impl FnOnce(&Expectations, &SharedView, &ObjectKey)) {
        if let Some(view) = self.applier.views.get(&object.kind) {
            let key = ObjectKey::new(&object.namespace, &object.name);
            remember(self.applier.place.expectations(), view, &key);
        }
    }

    fn tell(&self, event: &plan::Event, error: Option<&Error>) {
        let tone = match event.tone {
            Tone::Normal => EventType::Normal,
            Tone::Warning => EventType::Warning,
        };
        let message = match error {
            Some(error) => format!("{}: {error}", event.message),
            None => event.message.clone(),
        };
        let other = event.about.as_ref().map(|about| Regarding {
            api_version: about.api_version.clone(),
            kind: about.kind.clone(),
            namespace: about.namespace.clone(),
            name: about.name.clone(),
            uid: about.uid.clone(),
            resource_version: String::new(),
            field_path: String::new(),
        });
        let regarding = other.as_ref().unwrap_or(self.regarding);
        self.applier
            .place
            .recorder()
            .record(regarding, tone, event.reason, message);
    }
}

fn conditions(preconditions: &plan::Preconditions) -> Preconditions<'_> {
    Preconditions {
        uid: preconditions.uid.as_deref(),
        resource_version: preconditions.resource_version.as_deref(),
    }
}
