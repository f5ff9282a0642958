//! What the checks of one probe mean, one after the other.
//!
//! - Nothing is known at first. A container that is another one than before, because it was restarted, is not known either.
//! - A container that does not run has failed, at once.
//! - Otherwise a result counts when as many checks in a row have ended so as the probe's threshold says, one at least. Fewer keep what was known.
//! - A check that could not be made changes nothing. While nothing is known, it is told why.
//!
//! After a restart of the daemon what was reported last goes on to hold, unless the container has begun to run since.

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::jiff::Timestamp;
use kruise_api::nodepodprobe::ContainerProbeState;
use kruise_api::shared::probing::ProbeState;

/// Longest message, in bytes.
const LONGEST: usize = 1024;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Passed(String),
    Failed(String),
    /// It could not be made.
    Impossible(String),
}

/// What is known of one probe.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// The container that it is about.
    container: Option<String>,
    /// When what is known was reported, by an earlier daemon.
    restored: Option<Timestamp>,
    state: Known,
    message: String,
    /// How the last checks ended, and how many of them in a row.
    streak: Option<(bool, i32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    Succeeded,
    Failed,
    #[default]
    Unknown,
}

impl Course {
    /// Goes on from what was reported.
    pub(super) fn restored(reported: &ContainerProbeState) -> Self {
        let state = match reported.state {
            ProbeState::Succeeded => Known::Succeeded,
            ProbeState::Failed => Known::Failed,
            _ => Known::Unknown,
        };
        Self {
            restored: reported.last_probe_time.as_ref().map(|time| time.0),
            message: reported.message.clone(),
            state,
            ..Self::default()
        }
    }

    /// What is known now.
    pub(super) fn state(&self) -> ProbeState {
        match self.state {
            Known::Succeeded => ProbeState::Succeeded,
            Known::Failed => ProbeState::Failed,
            Known::Unknown => ProbeState::Unknown,
        }
    }

    /// What was said about it.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Looks at a container.
    pub(super) fn sees(&mut self, container: &str, started_at: Timestamp) {
        let restored = self.restored.take();
        let is_same = match &self.container {
            Some(known) => known == container,
            None => restored.is_some_and(|reported| started_at <= reported),
        };
        if !is_same {
            self.begin_anew();
        }
        self.container = Some(container.to_owned());
    }

    /// Forgets everything.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// The container does not run.
    pub(super) fn does_not_run(&mut self, name: &str) {
        self.streak = None;
        self.state = Known::Failed;
        self.message = format!("Container({name}) is Non-running");
    }

    /// Takes in how a check ended.
    pub(super) fn push(&mut self, check: Check, probe: &Probe) {
        let (passed, message) = match check {
            Check::Passed(message) => (true, message),
            Check::Failed(message) => (false, message),
            Check::Impossible(why) => {
                if self.state == Known::Unknown {
                    self.message = cut(why);
                }
                return;
            }
        };
        let in_a_row = match self.streak {
            Some((last, count)) if last == passed => count.saturating_add(1),
            _ => 1,
        };
        self.streak = Some((passed, in_a_row));
        let (threshold, state) = if passed {
            (probe.success_threshold, Known::Succeeded)
        } else {
            (probe.failure_threshold, Known::Failed)
        };
        if in_a_row >= threshold.unwrap_or_default() {
            self.state = state;
            self.message = cut(message);
        }
    }
}

fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(LONGEST));
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn time(second: u8) -> Timestamp {
        format!("2026-05-01T10:00:{second:02}Z").parse().expect("a time")
    }

    fn passed(message: &str) -> Check {
        Check::Passed(message.to_owned())
    }

    fn failed(message: &str) -> Check {
        Check::Failed(message.to_owned())
    }

    fn shown(course: &Course) -> (String, &str) {
        (course.state().to_string(), course.message())
    }

    fn known(state: &str, message: &'static str) -> (String, &'static str) {
        (state.to_owned(), message)
    }

    #[test]
    fn given_thresholds_then_so_many_in_a_row_count_and_fewer_keep_what_was_known() {
        let probe = Probe {
            failure_threshold: Some(3),
            success_threshold: Some(2),
            ..Probe::default()
        };
        let mut course = Course::default();
        course.sees("a", time(0));
        for (check, expected) in [
            (passed("one"), known("Unknown", "")),
            (failed("no"), known("Unknown", "")),
            (passed("one"), known("Unknown", "")),
            (passed("two"), known("Succeeded", "two")),
            (failed("1"), known("Succeeded", "two")),
            (failed("2"), known("Succeeded", "two")),
            (passed("3"), known("Succeeded", "two")),
            (failed("1"), known("Succeeded", "two")),
            (failed("2"), known("Succeeded", "two")),
            (Check::Impossible("odd".to_owned()), known("Succeeded", "two")),
            (failed("3"), known("Failed", "3")),
            (failed("4"), known("Failed", "4")),
        ] {
            course.push(check, &probe);
            assert_eq!(shown(&course), expected);
        }
    }

    #[test]
    fn given_no_thresholds_or_odd_ones_then_one_check_counts() {
        for threshold in [None, Some(0), Some(1), Some(-3)] {
            let probe = Probe {
                failure_threshold: threshold,
                success_threshold: threshold,
                ..Probe::default()
            };
            let mut course = Course::default();
            course.sees("a", time(0));
            course.push(failed("no"), &probe);
            assert_eq!(shown(&course), known("Failed", "no"));
            course.push(passed("yes"), &probe);
            assert_eq!(shown(&course), known("Succeeded", "yes"));
        }
    }

    #[test]
    fn given_another_container_then_nothing_is_known_and_one_that_does_not_run_has_failed() {
        let probe = Probe::default();
        let mut course = Course::default();
        course.sees("a", time(0));
        course.push(passed("yes"), &probe);
        course.sees("a", time(0));
        assert_eq!(shown(&course), known("Succeeded", "yes"));
        course.does_not_run("main");
        assert_eq!(shown(&course), known("Failed", "Container(main) is Non-running"));
        course.sees("b", time(5));
        assert_eq!(shown(&course), known("Unknown", ""));
        course.push(Check::Impossible("no such command".to_owned()), &probe);
        assert_eq!(shown(&course), known("Unknown", "no such command"));
        course.push(passed("yes"), &probe);
        assert_eq!(shown(&course), known("Succeeded", "yes"));
    }

    #[test]
    fn given_what_an_earlier_daemon_reported_then_it_holds_unless_the_container_is_younger() {
        let reported: ContainerProbeState = serde_json::from_value(json!({
            "name": "m#a", "state": "Succeeded", "message": "yes", "lastProbeTime": "2026-05-01T10:00:30Z",
        }))
        .expect("a state");
        for (started, expected) in [
            (29, known("Succeeded", "yes")),
            (30, known("Succeeded", "yes")),
            (31, known("Unknown", "")),
        ] {
            let mut course = Course::restored(&reported);
            assert_eq!(shown(&course), known("Succeeded", "yes"));
            course.sees("a", time(started));
            assert_eq!(shown(&course), expected, "{started}");
        }
        let mut course = Course::restored(&reported);
        course.sees("a", time(0));
        course.sees("b", time(0));
        assert_eq!(shown(&course), known("Unknown", ""));
    }

    #[test]
    fn given_a_long_message_then_it_is_cut_between_characters() {
        let mut course = Course::default();
        course.push(passed(&"ä".repeat(1000)), &Probe::default());
        assert_eq!(course.message().len(), 1024);
        course.push(passed(&format!("a{}", "ä".repeat(1000))), &Probe::default());
        assert_eq!(course.message().len(), 1023);
    }
}
