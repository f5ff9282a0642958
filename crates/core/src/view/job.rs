//! Jobs: how many nodes or Pods have had their turn.

use super::{Details, State, StateView, WorkloadView, conditions, images};
use crate::plan::{Why, why::Jobs};
use kruise_api::{
    advancedcronjob::v1beta1::AdvancedCronJob,
    broadcastjob::{BroadcastJobPhase, v1beta1::BroadcastJob},
    ephemeraljob::{EphemeralJobPhase, v1alpha1::EphemeralJob},
};

impl From<&BroadcastJob> for WorkloadView {
    fn from(job: &BroadcastJob) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let ended = status.succeeded + status.failed;
        let progress = format!(
            "{ended} of {} nodes are done, {} failed.",
            status.desired, status.failed
        );
        let state = match &status.phase {
            _ if job.metadata.deletion_timestamp.is_some() => StateView::new(State::Deleting, "It is being deleted."),
            BroadcastJobPhase::Completed => StateView::new(State::Complete, progress),
            BroadcastJobPhase::Failed => StateView::new(State::Failed, progress),
            BroadcastJobPhase::Paused => StateView::new(State::Paused, Why::Jobs(Jobs::JobPaused).to_string()),
            BroadcastJobPhase::Unset => StateView::new(State::Unseen, "No manager has looked at it yet."),
            _ => StateView::new(State::Running, progress),
        };
        let details = Details {
            images: images(&job.spec.template),
            conditions: conditions!(status.conditions),
            ..Details::default()
        };
        Self {
            unit: "nodes",
            wanted: status.desired,
            there: status.active + ended,
            updated: status.succeeded,
            expected: status.desired,
            ready: status.active,
            ..Self::in_state::<BroadcastJob>(&job.metadata, state, details)
        }
    }
}

impl From<&EphemeralJob> for WorkloadView {
    fn from(job: &EphemeralJob) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let progress = format!(
            "Of {} Pods {} succeeded and {} failed.",
            status.matched, status.succeeded, status.failed
        );
        let state = match &status.phase {
            _ if job.metadata.deletion_timestamp.is_some() => StateView::new(State::Deleting, "It is being deleted."),
            EphemeralJobPhase::Succeeded => StateView::new(State::Complete, progress),
            EphemeralJobPhase::Failed | EphemeralJobPhase::Error => StateView::new(State::Failed, progress),
            EphemeralJobPhase::Paused => StateView::new(State::Paused, Why::Jobs(Jobs::JobPaused).to_string()),
            EphemeralJobPhase::Unset => StateView::new(State::Unseen, "No manager has looked at it yet."),
            _ => StateView::new(State::Running, progress),
        };
        let details = Details {
            conditions: conditions!(status.conditions),
            ..Details::default()
        };
        Self {
            wanted: status.matched,
            there: status.running + status.waiting + status.succeeded + status.failed,
            updated: status.succeeded,
            expected: status.matched,
            ready: status.running,
            ..Self::in_state::<EphemeralJob>(&job.metadata, state, details)
        }
    }
}

impl From<&AdvancedCronJob> for WorkloadView {
    fn from(job: &AdvancedCronJob) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let active = status.active.len();
        let schedule = &job.spec.schedule;
        let last = status.last_schedule_time.as_ref();
        let last = last.map_or("never started".to_owned(), |last| {
            format!("last started for {}", last.0)
        });
        let note = format!("Schedule {schedule}, {last}.");
        let state = if job.metadata.deletion_timestamp.is_some() {
            State::Deleting
        } else if job.spec.paused == Some(true) {
            State::Paused
        } else if active > 0 {
            State::Running
        } else {
            State::Scheduled
        };
        let active = i32::try_from(active).unwrap_or(i32::MAX);
        Self {
            unit: "jobs",
            wanted: active,
            there: active,
            ready: active,
            ..Self::in_state::<AdvancedCronJob>(&job.metadata, StateView::new(state, note), Details::default())
        }
    }
}
