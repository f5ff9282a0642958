//! Pauses between attempts: twice as long after each failure, up to a limit. No clock inside.

use std::time::Duration;

/// How long to wait after failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
}

impl BackOff {
    /// Pauses that begin with `first` and double up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the pause after the last of so many failures.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1));
        let pause = factor.and_then(|factor| self.first.checked_mul(factor));
        pause.unwrap_or(Duration::MAX).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_failures_then_the_pause_doubles_up_to_its_limit() {
        let back_off = BackOff::new(Duration::from_secs(1), Duration::from_secs(30));
        let pauses = [0, 1, 2, 3, 4, 5, 6, 99].map(|failures| back_off.after(failures).as_secs());
        assert_eq!(pauses, [1, 1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn given_very_many_failures_then_nothing_overflows() {
        let back_off = BackOff::new(Duration::from_hours(1), Duration::MAX);
        assert_eq!(back_off.after(u32::MAX), Duration::MAX);
        assert_eq!(back_off.after(100), Duration::MAX);
    }
}
