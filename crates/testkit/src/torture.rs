//! How much of a long matrix of faults a run goes through.
//!
//! An ordinary run takes a sample, always the same one, so that what failed once fails again. `cargo xtask test --level torture` goes through all of it.
//!
//! ```
//! // A crash after any of nine writes; in an ordinary run after four of them.
//! for write in kruise_testkit::torture::sample(1, 9, 4) {
//!     assert!((1..=9).contains(&write));
//! }
//! ```

use std::time::Duration;

/// Is set when everything is wanted.
pub const TORTURE: &str = "KRUISE_TEST_TORTURE";

/// Whether this run goes through everything.
pub fn is_on() -> bool {
    std::env::var_os(TORTURE).is_some()
}

/// The numbers from `first` to `last`, or so many of them, evenly spread and with both ends.
pub fn sample(first: u64, last: u64, count: u64) -> Vec<u64> {
    if is_on() {
        (first..=last).collect()
    } else {
        spread(first, last, count)
    }
}

/// Time for a test that goes through a sample, or for one that goes through everything.
pub fn deadline(ordinary: Duration) -> Duration {
    if is_on() { ordinary * 10 } else { ordinary }
}

fn spread(first: u64, last: u64, count: u64) -> Vec<u64> {
    let Some(width) = last.checked_sub(first) else {
        return Vec::new();
    };
    let gaps = count.max(2) - 1;
    if gaps >= width {
        return (first..=last).collect();
    }
    (0..=gaps).map(|number| first + number * width / gaps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_and_has_both_ends() {
        assert_eq!(spread(1, 10, 4), [1, 4, 7, 10]);
        assert_eq!(spread(1, 3, 4), [1, 2, 3]);
        assert_eq!(spread(1, 4, 4), [1, 2, 3, 4]);
        assert_eq!(spread(5, 5, 4), [5]);
        assert_eq!(spread(5, 4, 4), [0; 0]);
        assert_eq!(spread(0, 100, 1), [0, 100]);
    }
}
