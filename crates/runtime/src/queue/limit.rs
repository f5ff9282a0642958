//! How fast something may be tried again: a growing pause for each key, and a bucket for all together. No clock inside.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::back_off::BackOff;

/// Limits of a queue. The defaults are those that Kubernetes' own controllers have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Pause after the first failure of a key; it doubles with each further one.
    pub base_delay: Duration,
    /// Longest pause of a key.
    pub max_delay: Duration,
    /// Retries per second, all keys together; no limit when not above 0.
    pub rate: f64,
    /// Retries at once, all keys together.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_secs(1000),
            rate: 10.0,
            burst: 100,
        }
    }
}

/// Failures of each key.
#[derive(Debug)]
pub(super) struct KeyBackOff<T> {
    back_off: BackOff,
    failures: HashMap<T, u32>,
}

impl<T: Eq + Hash> KeyBackOff<T> {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            back_off: BackOff::new(limits.base_delay, limits.max_delay),
            failures: HashMap::new(),
        }
    }

    /// The pause after one more failure, not longer than this; once it is as long as that, it does not grow in secret.
    pub(super) fn next(&mut self, key: T, longest: Duration) -> Duration {
        let failures = self.failures.entry(key).or_default();
        let more = failures.saturating_add(1);
        let pause = self.back_off.after(more);
        if pause < longest {
            *failures = more;
        }
        pause.min(longest)
    }

    pub(super) fn forget(&mut self, key: &T) {
        self.failures.remove(key);
    }
}

/// A bucket of tokens that fills up at a steady rate. Taking more than there is makes the taker wait.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    /// A full bucket; without a limit when `rate` is not above 0.
    pub fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            rate,
            burst,
            tokens: burst,
            filled: None,
        }
    }

    /// Takes a token if there is one. Returns whether there was.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let before = self.clone();
        let there = self.take(now).is_zero();
        if !there {
            *self = before;
        }
        there
    }

    /// Takes a token and returns how long to wait until it is really there.
    pub fn take(&mut self, now: Instant) -> Duration {
        if self.rate <= 0.0 {
            return Duration::ZERO;
        }
        let since = self
            .filled
            .map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        self.tokens = (self.tokens + since.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_failures_of_a_key_then_its_pause_doubles_up_to_its_limit() {
        let mut back_off = KeyBackOff::new(&Limits::default());
        let pauses: Vec<_> = (0..20).map(|_| back_off.next("a", Duration::MAX).as_millis()).collect();
        assert_eq!(pauses[..5], [5, 10, 20, 40, 80]);
        assert_eq!(pauses[17], 655_360);
        assert_eq!(pauses[18..], [1_000_000, 1_000_000]);
        back_off.forget(&"a");
        assert_eq!(back_off.next("a", Duration::MAX).as_millis(), 5);
    }

    #[test]
    fn given_a_bucket_then_the_burst_is_free_and_the_rest_comes_at_its_rate() {
        let mut bucket = Bucket::new(10.0, 3);
        let start = Instant::now();
        let waits: Vec<_> = (0..5).map(|_| bucket.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(
            bucket.take(start + Duration::from_mins(1)),
            Duration::ZERO,
            "it fills up again"
        );
        assert_eq!(Bucket::new(0.0, 1).take(start), Duration::ZERO);
    }
}
