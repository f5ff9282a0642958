//! The status: what is started, what runs, and when the last start was.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::advancedcronjob::AdvancedCronJobStatus;
use kruise_api::advancedcronjob::v1beta1::AdvancedCronJob;

use super::child::Child;
use super::start;

/// The status with these jobs. What runs is named as it was, as long as the same jobs run.
pub(super) fn of(cron: &AdvancedCronJob, children: &[Child]) -> AdvancedCronJobStatus {
    let old = cron.status.clone().unwrap_or_default();
    let mut active: Vec<&Child> = children.iter().filter(|child| child.is_active()).collect();
    active.sort_by(|one, other| one.object.name.cmp(&other.object.name));
    let mut named: Vec<&str> = old.active.iter().filter_map(|known| known.uid.as_deref()).collect();
    named.sort_unstable();
    let mut running: Vec<&str> = active.iter().map(|child| &*child.uid).collect();
    running.sort_unstable();
    let started = children.iter().filter_map(|child| child.scheduled_at).max();
    let last = old.last_schedule_time.as_ref().map(|last| last.0);
    AdvancedCronJobStatus {
        type_: start::kind(cron).unwrap_or(old.type_),
        active: if named == running && named.len() == old.active.len() {
            old.active
        } else {
            active.iter().map(|child| child.reference()).collect()
        },
        last_schedule_time: last.max(started).map(Time),
    }
}
