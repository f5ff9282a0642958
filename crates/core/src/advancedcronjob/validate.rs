//! What an AdvancedCronJob has to be.
//!
//! - Its name becomes part of names and labels: at most 63 characters, no dots.
//! - Its schedule can be read, and its time zone is one of the IANA database; only one of the two names a zone.
//! - It has exactly one template. Pod templates are judged by the API server itself; what else a job has to be is found out when it is made.
//! - An ImageListPullJob replaces its predecessor or waits for it, ends, and is cleaned up by the history limits.
//! - The template cannot be changed, except that of an ImageListPullJob.
//!
//! What is allowed as with the original, and hardly meant, is told as a warning: a schedule without a time, and a name with which no job can be made.

use jiff::Timestamp;
use kruise_api::advancedcronjob::ConcurrencyPolicy;
use kruise_api::imagelistpulljob::ImageListPullJobSpec;
use kruise_api::shared::completion::CompletionPolicyType;
use serde_json::json;
use std::collections::BTreeSet;

use super::Submitted;
use super::schedule::{Schedule, names_zone, zone};
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::image_pull::{validate_choice, validate_image};
use crate::shared::validate::{job_name, object_meta};

/// Longest deadline of image pulls, a day.
const LONGEST_DEADLINE: i64 = 86_400;
/// Longest name with which jobs have a name that is the value of a label: theirs has a time in seconds behind it.
const LONGEST_NAME: usize = 52;
/// Most images of one job.
const MOST_IMAGES: usize = 255;

/// Everything that is wrong with an object.
pub fn validate(new: &Submitted, found: &Lookups) -> FieldErrors {
    let mut errors = object_meta::validate(&new.metadata);
    errors.extend(job_name::validate(&new.metadata, "AdvancedCronJob"));
    let spec = Path::new("spec");
    errors.extend(validate_schedule(new, &spec));
    for (field, number) in [
        ("startingDeadlineSeconds", new.spec.starting_deadline_seconds),
        (
            "successfulJobsHistoryLimit",
            new.spec.successful_jobs_history_limit.map(i64::from),
        ),
        (
            "failedJobsHistoryLimit",
            new.spec.failed_jobs_history_limit.map(i64::from),
        ),
    ] {
        if let Some(number) = number.filter(|number| *number < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&spec.child(field), number, detail));
        }
    }
    errors.extend(validate_zone(new, &spec));
    errors.extend(validate_template(new, &spec));
    errors.extend(found.template.iter().cloned());
    FieldErrors(errors)
}

fn validate_schedule(new: &Submitted, spec: &Path) -> Vec<FieldError> {
    let at = spec.child("schedule");
    let schedule = new.spec.schedule.as_str();
    let mut errors = Vec::new();
    if schedule.is_empty() {
        let detail = "schedule cannot be empty, please provide valid cron schedule.";
        errors.push(FieldError::invalid(&at, schedule, detail));
    }
    if let Err(detail) = Schedule::parse(schedule, None) {
        errors.push(FieldError::invalid(&at, schedule, &detail));
    }
    if new.spec.time_zone.is_some() && names_zone(schedule) {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(FieldError::invalid(&at, schedule, detail));
    }
    errors
}

fn validate_zone(new: &Submitted, spec: &Path) -> Vec<FieldError> {
    let at = spec.child("timeZone");
    let Some(name) = new.spec.time_zone.as_deref() else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if name.is_empty() {
        let detail = "timeZone must be nil or non-empty string";
        errors.push(FieldError::invalid(&at, name, detail));
        return errors;
    }
    if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(&at, name, detail));
    }
    if let Err(detail) = zone(name) {
        errors.push(FieldError::invalid(&at, name, &detail));
    }
    errors
}

fn validate_template(new: &Submitted, spec: &Path) -> Vec<FieldError> {
    let at = spec.child("template");
    let template = &new.spec.template;
    let given = [
        !template.job_template.is_empty(),
        template.broadcast_job_template.is_some(),
        template.image_list_pull_job_template.is_some(),
    ];
    let which = "either JobTemplate or BroadcastJobTemplate or ImageListPullJobTemplate should be provided";
    let mut errors = Vec::new();
    match given.iter().filter(|given| **given).count() {
        0 => {
            let detail = format!("spec must have one template, {which}");
            errors.push(FieldError::forbidden(&at, &detail));
        }
        1 => {}
        _ => {
            let detail = format!("spec can have only one template, {which}");
            errors.push(FieldError::forbidden(&at, &detail));
        }
    }
    if let Some(list) = &template.image_list_pull_job_template {
        let policy = &new.spec.concurrency_policy;
        if !matches!(policy, ConcurrencyPolicy::Replace | ConcurrencyPolicy::Forbid) {
            let detail = format!("concurrencyPolicy should be Replace or Forbid, but current value is: {policy}");
            let at = spec.child("concurrencyPolicy");
            errors.push(FieldError::invalid(&at, policy.as_str(), &detail));
        }
        let at = at.child("imageListPullJobTemplate").child("spec");
        errors.extend(validate_list(&list.spec, &at));
    }
    errors
}

fn validate_list(list: &ImageListPullJobSpec, spec: &Path) -> Vec<FieldError> {
    let mut errors = validate_choice(list.selector.as_ref(), list.pod_selector.as_ref(), spec);
    let at = spec.child("images");
    if list.images.is_empty() {
        errors.push(FieldError::invalid(&at, json!(list.images), "image can not be empty"));
    }
    if list.images.len() > MOST_IMAGES {
        let detail = format!("the maximum number of images cannot > {MOST_IMAGES}");
        errors.push(FieldError::invalid(&at, list.images.len(), &detail));
    }
    let distinct: BTreeSet<&String> = list.images.iter().collect();
    if distinct.len() < list.images.len() {
        let detail = "images cannot have duplicate values";
        errors.push(FieldError::invalid(&at, json!(list.images), detail));
    }
    errors.extend(
        list.images
            .iter()
            .enumerate()
            .filter_map(|(index, image)| validate_image(image, &at.index(index))),
    );
    let at = spec.child("completionPolicy");
    let policy = &list.completion_policy;
    if policy.type_ != CompletionPolicyType::Always {
        let detail = format!(
            "completionPolicy should be Always, but current value is: {}",
            policy.type_
        );
        errors.push(FieldError::invalid(&at.child("type"), policy.type_.as_str(), &detail));
    }
    if let Some(seconds) = policy.ttl_seconds_after_finished {
        let detail = "ttlSecondsAfterFinished is not supported in advancedCronJob";
        errors.push(FieldError::invalid(
            &at.child("ttlSecondsAfterFinished"),
            seconds,
            detail,
        ));
    }
    let at = at.child("activeDeadlineSeconds");
    if let Some(seconds) = policy.active_deadline_seconds {
        if seconds > LONGEST_DEADLINE {
            let detail =
                format!("activeDeadlineSeconds must be less than {LONGEST_DEADLINE}, current value is: {seconds}");
            errors.push(FieldError::invalid(&at, seconds, &detail));
        }
        // Without a timeout of its own the job is judged when it is made.
        let timeout = list.pull_policy.as_ref().and_then(|policy| policy.timeout_seconds);
        if let Some(timeout) = timeout.filter(|timeout| i64::from(*timeout) > seconds) {
            let detail = format!(
                "completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds({timeout})"
            );
            errors.push(FieldError::invalid(&at, seconds, &detail));
        }
    }
    errors
}

/// What a user should know of an object that is allowed.
pub fn warnings(new: &Submitted, now: Timestamp) -> Vec<String> {
    let mut warnings = Vec::new();
    let schedule = Schedule::parse(&new.spec.schedule, new.spec.time_zone.as_deref());
    if schedule.is_ok_and(|schedule| schedule.next(now).is_none()) {
        let schedule = &new.spec.schedule;
        warnings.push(format!(
            "spec.schedule: {schedule:?} names no time within five years; nothing is ever started"
        ));
    }
    let length = new.metadata.name.as_deref().map_or(0, str::len);
    if length > LONGEST_NAME && new.spec.template.image_list_pull_job_template.is_none() {
        warnings.push(format!(
            "metadata.name: with more than {LONGEST_NAME} characters the names of jobs are too long, and none can be made"
        ));
    }
    warnings
}

/// Why an object may not be changed like this.
pub fn forbidden(new: &Submitted, old: &Submitted) -> Option<FieldError> {
    let mut allowed = old.spec.clone();
    let changed = new.spec.clone();
    allowed.schedule.clone_from(&changed.schedule);
    allowed.concurrency_policy = changed.concurrency_policy.clone();
    allowed.successful_jobs_history_limit = changed.successful_jobs_history_limit;
    allowed.failed_jobs_history_limit = changed.failed_jobs_history_limit;
    allowed.starting_deadline_seconds = changed.starting_deadline_seconds;
    allowed.paused = changed.paused;
    allowed.time_zone.clone_from(&changed.time_zone);
    let list = &mut allowed.template.image_list_pull_job_template;
    if list.is_some() && changed.template.image_list_pull_job_template.is_some() {
        list.clone_from(&changed.template.image_list_pull_job_template);
    }
    let detail = "updates to advancedcronjob spec for fields other than 'imageListPullJobTemplate', 'schedule', 'concurrencyPolicy', \
                  'successfulJobsHistoryLimit', 'failedJobsHistoryLimit', 'startingDeadlineSeconds', 'timeZone' and 'paused' are forbidden";
    (allowed != changed).then(|| FieldError::forbidden(&Path::new("spec"), detail))
}
