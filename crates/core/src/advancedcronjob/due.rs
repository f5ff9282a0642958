//! Whether a job is due now.
//!
//! The latest time of the schedule counts that has passed since the last start, or since the object was made. With `startingDeadlineSeconds` the look back is no
//! longer than that. A last start that is still to come, because a clock was set back, is waited for.
//!
//! The next time is the first one behind those. That is not the same as the first one after now: `@every 90m` counts from the last start, whenever one looks.

use jiff::{SignedDuration, Timestamp};
use kruise_api::advancedcronjob::v1beta1::AdvancedCronJob;

use super::schedule::Schedule;

/// Most times that may have been missed.
pub(super) const MOST: usize = 100;

/// Whether a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Not now.
    No,
    /// For this time.
    Yes(Timestamp),
    /// This time was missed, and it is too late.
    TooLate(Timestamp),
    /// Too many times were missed.
    TooMany,
}

/// Whether a job is due now, and the next time after that; `last` is when the last one was.
pub(super) fn look_up(
    cron: &AdvancedCronJob,
    last: Option<Timestamp>,
    schedule: &Schedule,
    now: Timestamp,
) -> (Due, Option<Timestamp>) {
    let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let deadline = cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
    let since = last.unwrap_or(created);
    let mut at = earliest.map_or(since, |earliest| schedule.skip(since, earliest));
    let mut missed = None;
    for _ in 0..=MOST {
        match schedule.next(at) {
            Some(next) if next <= now => {
                missed = Some(next);
                at = next;
            }
            next => return (judged(missed, deadline, now), next),
        }
    }
    (Due::TooMany, None)
}

fn judged(missed: Option<Timestamp>, deadline: Option<SignedDuration>, now: Timestamp) -> Due {
    let Some(missed) = missed else { return Due::No };
    if deadline.is_some_and(|deadline| now.duration_since(missed) > deadline) {
        Due::TooLate(missed)
    } else {
        Due::Yes(missed)
    }
}
