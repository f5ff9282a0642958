//! Times and spans in whole seconds, as Kubernetes keeps them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Returns a time without its fraction of a second.
pub fn truncate(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns a time as Kubernetes writes it: UTC, to the second.
pub fn to_the_second(time: Timestamp) -> String {
    truncate(time).to_string()
}

/// Returns a time span in whole seconds, rounded up; a negative one is none.
pub fn whole_seconds(span: SignedDuration) -> Duration {
    let seconds = span.as_secs() + i64::from(span.subsec_nanos() > 0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
