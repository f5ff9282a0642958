//! NodeImage: which images a node shall hold. Its life, as far as the manager looks after it:
//!
//! 1. A node that has been ready for half a minute gets one, with the labels of the node; virtual nodes get none. It goes with its node, unless it
//!    carries the label for tests without nodes.
//! 2. Its labels follow the node's. Tags go when all jobs that asked for them are gone, and when their time after the pull is over; images without
//!    tags go as well ([`cleanup`]).
//! 3. A node that does not answer for ten minutes has failed, so that no job waits for ever ([`answers`]).

mod admit;
mod answers;
mod cleanup;
pub mod convert;
pub mod default;
#[cfg(test)]
mod tests;
pub mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::kind::Kind as _;
use kruise_api::names::label;
use kruise_api::node::Node;
use kruise_api::nodeimage::v1beta1::NodeImage;
use kruise_api::nodeimage::v1beta1::{ImageSpec, NodeImageSpec, SecretMode};
use kruise_api::nodeimage::{CachedNodeImage, ImageTagSpec};
use kruise_api::resource::Preconditions;
use serde_json::{Value, json};

use crate::admission;
use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::seconds::whole_seconds;

/// A NodeImage as somebody submitted it; v1beta1 only adds a word that no rule looks at.
pub type Submitted = admission::Submitted<NodeImageSpec>;

/// A node, its NodeImage, and what that depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Name of both.
    pub name: String,
    /// The node.
    pub node: Option<Arc<Node>>,
    /// Its NodeImage.
    pub images: Option<Arc<CachedNodeImage>>,
    /// Of each job among the owners of tags, by namespace and name: its UID; none when it is gone.
    pub jobs: BTreeMap<(String, String), Option<String>>,
    /// Secrets that are listed and no longer there, by namespace and name.
    pub gone_secrets: BTreeSet<(String, String)>,
    /// `--nodeimage-creation-delay`.
    pub creation_delay: Duration,
}

/// The shortest time until the next look.
const SOON: Duration = Duration::from_secs(3);

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a node now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    let node = observed.node.as_deref().filter(|node| !node.metadata.is_deleting());
    let Some(images) = &observed.images else {
        if let Some(node) = node.filter(|node| !node.is_virtual()) {
            create(observed, node, env, &mut plan);
        }
        return plan;
    };
    if images.metadata.is_deleting() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if node.is_none() && images.metadata.label(label::FAKE_NODE_IMAGE).is_none() {
        plan.push(single(Action::delete(
            Target::of(&**images),
            Preconditions::same(&**images),
        )));
        return plan;
    }
    cleanup::plan(observed, images, node, env, &mut plan);
    if plan.is_idle() {
        answers::plan(images, env, &mut plan);
    }
    plan.wake_after = plan.wake_after.map(|after| after.max(SOON));
    plan
}

fn create(observed: &Observed, node: &Node, env: &Env, plan: &mut Plan) {
    // Its next event comes when it is ready.
    let Some(since) = node.ready_since() else { return };
    let delay = SignedDuration::try_from(observed.creation_delay).unwrap_or(SignedDuration::MAX);
    let due = since.timestamp().saturating_add(delay).unwrap_or(Timestamp::MAX);
    if due > env.now {
        plan.wake(whole_seconds(due.duration_since(env.now)));
        return;
    }
    let body = json!({
        "apiVersion": NodeImage::API_VERSION, "kind": "NodeImage",
        "metadata": {"name": observed.name, "labels": labels(&node.metadata)}, "spec": {},
    });
    let object = Target::new(NodeImage::RESOURCE, "", &observed.name);
    plan.push(single(Action::create(object, body)));
}

/// The jobs whose UIDs [`Observed::jobs`] has to have, by namespace and name.
pub fn jobs_to_look_up(images: &CachedNodeImage) -> BTreeSet<(String, String)> {
    cleanup::jobs(images).collect()
}

/// The Secrets that may be gone, by namespace and name; shared copies are not asked for.
pub fn secrets_to_look_up(images: &CachedNodeImage) -> BTreeSet<(String, String)> {
    let secrets = images.spec.images.values().flat_map(|image| &image.pull_secrets);
    let own = secrets.filter(|secret| secret.mode != SecretMode::Batch);
    own.map(|secret| (secret.namespace.clone(), secret.name.clone()))
        .collect()
}

/// The jobs that are concerned when a NodeImage changes from one into the other: those that own a tag which is asked for or answered differently,
/// or an image whose Secrets or sandbox changed.
pub fn jobs_concerned(old: &CachedNodeImage, new: &CachedNodeImage) -> BTreeSet<(String, String)> {
    let mut jobs = BTreeSet::new();
    let names: BTreeSet<&String> = old.spec.images.keys().chain(new.spec.images.keys()).collect();
    for name in names {
        let (before, after) = (old.spec.images.get(name), new.spec.images.get(name));
        let shared =
            |image: Option<&ImageSpec>| image.map(|image| (image.pull_secrets.clone(), image.sandbox_config.clone()));
        let all_change = shared(before) != shared(after);
        let tags = |image: Option<&'_ ImageSpec>| image.map(|image| image.tags.clone()).unwrap_or_default();
        let (before, after) = (tags(before), tags(after));
        let answer = |images: &CachedNodeImage, tag: &str| {
            let image = images.status.image_statuses.get(name)?;
            image.tags.iter().find(|known| known.tag == tag).cloned()
        };
        for tag in before.iter().chain(&after) {
            let same = |tags: &[ImageTagSpec]| tags.iter().find(|known| known.tag == tag.tag).cloned();
            let changed = same(&before) != same(&after) || answer(old, &tag.tag) != answer(new, &tag.tag);
            if all_change || changed {
                jobs.extend(tag.owner_references.iter().filter_map(cleanup::job_of));
            }
        }
    }
    jobs
}

/// Labels as JSON.
fn labels(meta: &kruise_api::meta::Meta) -> Value {
    let pairs = meta.labels.iter().map(|(key, value)| (key.to_owned(), json!(&**value)));
    Value::Object(pairs.collect())
}

fn single(action: Action) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(action.into()));
    step
}
