//! ImageListPullJob: pulls several images onto many nodes ahead of time, by one ImagePullJob for each.
//!
//! - Each image has a job made from the rest of the spec. A job whose image left the list goes; when the rest of the spec changes, all are made anew.
//!   A label says which spec a job was made from. A job that says the same under another label, as another release wrote it, is only labelled anew.
//! - A job that is gone before the list is done comes back.
//! - The list is done when all of its jobs are, and goes after `ttlSecondsAfterFinished`; its jobs follow. One of type `Never` is never done.

mod admit;
pub mod default;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::imagelistpulljob::ImageListPullJobSpec;
use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind;
use kruise_api::meta::Object;
use kruise_api::names::{event, label, pattern};
use kruise_api::resource::Preconditions;
use serde_json::{Map, Value, json};

use crate::admission;
use crate::plan::why;
use crate::plan::{Action, Chain, Env, Event, IdSource, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::image_pull::{default_completion, default_pull_policy};
use crate::shared::revision;
use crate::shared::time_to_live;
use crate::shared::tree::fill;

/// An ImageListPullJob as a user submitted it; both versions have the same shape.
pub type Submitted = admission::Submitted<ImageListPullJobSpec>;

/// A list and its jobs.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The list.
    pub list: Arc<ImageListPullJob>,
    /// The jobs that it owns.
    pub jobs: Vec<Arc<ImagePullJob>>,
}

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a list now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let list = &*observed.list;
    let mut plan = Plan::default();
    if list.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if list
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some())
    {
        finish(list, env, &mut plan);
        return plan;
    }
    let template = template(list);
    let hash = revision::hash(&template.to_string(), 0);
    label_list(list, &hash, &mut plan);
    let jobs: BTreeMap<&str, &ImagePullJob> = observed
        .jobs
        .iter()
        .filter(|job| job.metadata.deletion_timestamp.is_none())
        .map(|job| (job.spec.image.as_str(), &**job))
        .collect();
    let mut superfluous = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Stop);
    let mut relabelled = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
    let mut current = BTreeMap::new();
    for (&image, &job) in &jobs {
        let is_listed = list.spec.images.iter().any(|listed| listed == image);
        let has_hash = label_of(&job.metadata) == Some(hash.as_str());
        if !is_listed || !(has_hash || says_same(job, &template)) {
            superfluous.push(Chain::of(
                Action::delete(Target::of(job), Preconditions::same(job)).into(),
            ));
            continue;
        }
        if !has_hash {
            relabelled.push(labelled(job, &hash));
        }
        current.insert(image, job);
    }
    announce(&mut superfluous, event::DELETED_CHILD_PULL_JOB, "Delete");
    let missing: Vec<&String> = list
        .spec
        .images
        .iter()
        .filter(|image| !current.contains_key(image.as_str()))
        .collect();
    let mut made = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Stop);
    let mut ids = env.ids.clone();
    for image in missing {
        made.push(Chain::of(make(list, image, &template, &hash, &mut ids).into()));
    }
    announce(&mut made, event::CREATED_CHILD_PULL_JOB, "Create");
    for step in [superfluous, relabelled, made] {
        plan.push(step);
    }
    plan.status = status::write(list, &status::of(list, &current, env.now));
    plan
}

/// The spec of the jobs but for their image, as written.
fn template(list: &ImageListPullJob) -> Value {
    let mut spec = serde_json::to_value(&list.spec).unwrap_or_default();
    if let Value::Object(spec) = &mut spec {
        spec.remove("images");
    }
    spec
}

/// Whether a job was made from this template, whatever its label says: with all defaults they are the same.
fn says_same(job: &ImagePullJob, template: &Value) -> bool {
    let completed = |spec: Value| {
        let mut spec = spec.as_object().cloned().unwrap_or_default();
        spec.remove("image");
        default_completion(&mut spec);
        default_pull_policy(&mut spec);
        fill(&mut spec, "imagePullPolicy", json!("IfNotPresent"));
        spec
    };
    completed(serde_json::to_value(&job.spec).unwrap_or_default()) == completed(template.clone())
}

fn make(list: &ImageListPullJob, image: &str, template: &Value, hash: &str, ids: &mut IdSource) -> Action {
    let meta = &list.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (namespace, owner) = (text(&meta.namespace), text(&meta.name));
    let beginning = pattern::child_pull_job_prefix(&owner);
    let name = format!("{beginning}{}", ids.next_id());
    let mut spec = template.as_object().cloned().unwrap_or_else(Map::new);
    spec.insert("image".to_owned(), json!(image));
    let body = json!({
        "apiVersion": ImagePullJob::API_VERSION, "kind": ImagePullJob::KIND,
        "metadata": {
            "name": name, "generateName": beginning, "namespace": namespace, "labels": {(label::REVISION): hash},
            "ownerReferences": [{
                "apiVersion": ImageListPullJob::API_VERSION, "kind": ImageListPullJob::KIND, "name": owner, "uid": text(&meta.uid),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    });
    Action::create(Target::new(ImagePullJob::RESOURCE, &namespace, &name), body)
}

/// The last of the writes tells how many there were.
fn announce(step: &mut Step, reason: &'static str, verb: &str) {
    let count = step.chains.len();
    if let Some(write) = step.chains.last_mut().and_then(|chain| chain.writes.last_mut()) {
        let event = Event::normal(reason, format!("{verb} {count} ImagePullJob"));
        *write = Write {
            succeeded: vec![event],
            ..write.clone()
        };
    }
}

fn label_of(meta: &ObjectMeta) -> Option<&str> {
    meta.labels.as_ref()?.get(label::REVISION).map(String::as_str)
}

fn label_list(list: &ImageListPullJob, hash: &str, plan: &mut Plan) {
    if label_of(&list.metadata) != Some(hash) {
        let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
        step.push(labelled(list, hash));
        plan.push(step);
    }
}

fn labelled(object: &(impl Kind + Object), hash: &str) -> Chain {
    let patch = json!({"metadata": {"labels": {(label::REVISION): hash}}});
    let same = Preconditions::same(object);
    Chain::of(Action::merge(Target::of(object), None, patch, same).into())
}

fn finish(list: &ImageListPullJob, env: &Env, plan: &mut Plan) {
    let ended = list.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let ttl = list.spec.completion_policy.ttl_seconds_after_finished;
    time_to_live::delete_after_ttl(list, ended, ttl, env, plan);
}
