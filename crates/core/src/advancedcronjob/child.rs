//! A job that was started, of whatever kind.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::job::Job;
use kruise_api::kind::Kind;
use kruise_api::meta::{CompactTimestamp, Object};
use kruise_api::names::annotation;
use kruise_api::names::condition::broadcast_job as condition;
use kruise_api::pod::status::Holds;
use kruise_api::resource::Preconditions;
use kruise_api::shared::conditions::ConditionStatus;

use crate::plan::{Action, Chain, Target};

/// A job that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The job.
    pub object: Target,
    /// Its UID.
    pub uid: String,
    /// The time for which it was started.
    pub scheduled_at: Option<Timestamp>,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// How it ended.
    pub end: Option<End>,
    /// It is on its way out.
    pub is_deleting: bool,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    Failed,
}

impl Child {
    /// A Job of Kubernetes: it ends with a condition.
    pub fn of_job(job: &Job) -> Self {
        let conditions = job.status.conditions.iter();
        let held = conditions
            .filter(|known| known.status == Holds::True)
            .map(|known| &*known.type_);
        Self {
            scheduled_at: scheduled_at(job.metadata.annotation(annotation::SCHEDULED_AT)),
            started_at: job.status.start_time.map(CompactTimestamp::timestamp),
            end: end(held),
            is_deleting: job.metadata.is_deleting(),
            ..Self::named(job)
        }
    }

    /// A BroadcastJob: as a Job.
    pub fn of_broadcast_job(job: &BroadcastJob) -> Self {
        let conditions = job.status.iter().flat_map(|status| &status.conditions);
        let held = conditions
            .filter(|known| known.status == ConditionStatus::True)
            .map(|known| &*known.type_);
        let started = job.status.as_ref().and_then(|status| status.start_time.as_ref());
        Self {
            started_at: started.map(|time| time.0),
            end: end(held),
            ..Self::annotated(job, &job.metadata)
        }
    }

    /// An ImageListPullJob: it is complete when all images could be pulled.
    pub fn of_image_list_pull_job(job: &ImageListPullJob) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let end = if status.succeeded == status.desired {
            End::Complete
        } else {
            End::Failed
        };
        Self {
            started_at: status.start_time.map(|time| time.0),
            end: status.completion_time.map(|_| end),
            ..Self::annotated(job, &job.metadata)
        }
    }

    fn annotated<K: Kind + Object>(job: &K, meta: &ObjectMeta) -> Self {
        let annotations = meta.annotations.as_ref();
        let time = annotations.and_then(|all| all.get(annotation::SCHEDULED_AT));
        Self {
            scheduled_at: scheduled_at(time.map(String::as_str)),
            is_deleting: meta.deletion_timestamp.is_some(),
            ..Self::named(job)
        }
    }

    fn named<K: Kind + Object>(job: &K) -> Self {
        Self {
            object: Target::of(job),
            uid: job.uid().to_string(),
            scheduled_at: None,
            started_at: None,
            end: None,
            is_deleting: false,
        }
    }

    /// It runs, or is about to.
    pub fn is_active(&self) -> bool {
        self.end.is_none()
    }

    /// How the status names it.
    pub(super) fn reference(&self) -> ObjectReference {
        let Target {
            resource,
            namespace,
            name,
        } = &self.object;
        ObjectReference {
            api_version: Some(resource.api_version.to_owned()),
            kind: Some(resource.kind.to_owned()),
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }

    /// The write that deletes it.
    pub(super) fn deletion(&self) -> Chain {
        if self.is_deleting {
            return Chain::default();
        }
        let preconditions = Preconditions::uid(self.uid.as_str());
        Chain::of(Action::delete(self.object.clone(), preconditions).into())
    }
}

/// A time that cannot be read is none.
fn scheduled_at(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn end<'a>(mut conditions: impl Iterator<Item = &'a str>) -> Option<End> {
    conditions.find_map(|type_| match type_ {
        condition::COMPLETE => Some(End::Complete),
        condition::FAILED => Some(End::Failed),
        _ => None,
    })
}
