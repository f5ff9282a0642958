//! How a job is started.
//!
//! The job gets the spec, labels and annotations of the template, the time it is for as an annotation, and an owner. Then the time is written to the status. Of
//! several templates the one for a Job counts before the one for an ImageListPullJob, and that before the one for a BroadcastJob.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kruise_api::advancedcronjob::CronJobTemplateKind;
use kruise_api::advancedcronjob::v1beta1::AdvancedCronJob;
use kruise_api::broadcastjob::v1beta1::BroadcastJob;
use kruise_api::imagelistpulljob::v1beta1::ImageListPullJob;
use kruise_api::kind::Kind as _;
use kruise_api::names::{annotation, event, pattern};
use kruise_api::resource::{Preconditions, Resource, Subresource};
use serde_json::{Map, Value, json};

use crate::plan::{Action, Chain, Event, Target, Write};
use crate::shared::owner::Owner;
use crate::shared::seconds::to_the_second;

/// The kind of job that is started; nothing without a template.
pub(super) fn kind(cron: &AdvancedCronJob) -> Option<CronJobTemplateKind> {
    let template = &cron.spec.template;
    if !template.job_template.is_empty() {
        Some(CronJobTemplateKind::Job)
    } else if template.image_list_pull_job_template.is_some() {
        Some(CronJobTemplateKind::ImageListPullJob)
    } else if template.broadcast_job_template.is_some() {
        Some(CronJobTemplateKind::BroadcastJob)
    } else {
        None
    }
}

/// The kind of job that is started and its template, as JSON.
fn template(cron: &AdvancedCronJob) -> Option<(&'static Resource, Value)> {
    let template = &cron.spec.template;
    match kind(cron)? {
        CronJobTemplateKind::Job => Some((Job::RESOURCE, template.job_template.value())),
        CronJobTemplateKind::ImageListPullJob => {
            let list = serde_json::to_value(&template.image_list_pull_job_template).ok()?;
            Some((ImageListPullJob::RESOURCE, list))
        }
        _ => {
            let job = serde_json::to_value(&template.broadcast_job_template).ok()?;
            Some((BroadcastJob::RESOURCE, job))
        }
    }
}

/// Starts the job for a time, and says so in the status.
pub(super) fn chain(cron: &AdvancedCronJob, at: Timestamp) -> Option<Chain> {
    let (resource, template) = template(cron)?;
    let owner = Owner::of::<AdvancedCronJob>(&cron.metadata);
    let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
    let name = pattern::cron_child(&owner.name, at.as_second());
    let time = to_the_second(at);
    let of_template = |field: &str| {
        let found = template
            .pointer(&format!("/metadata/{field}"))
            .and_then(Value::as_object);
        found.cloned().unwrap_or_else(Map::new)
    };
    let mut annotations = of_template("annotations");
    annotations.insert(annotation::SCHEDULED_AT.to_owned(), json!(time));
    let body = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {
            "name": name, "namespace": namespace, "labels": of_template("labels"), "annotations": annotations,
            "ownerReferences": [owner.reference()],
        },
        "spec": template.get("spec"),
    });
    let target = Target::new(resource, namespace, &name);
    let create = Write::from(Action::create(target, body)).or_else(Event::warning(
        event::FAILED_CREATE,
        format!("Error creating {} {name}", resource.kind),
    ));
    let noted = Action::merge(
        Target::of(cron),
        Some(Subresource::Status),
        json!({"status": {"lastScheduleTime": time}}),
        Preconditions::same(cron),
    );
    Some([create, noted.into()].into_iter().collect())
}
