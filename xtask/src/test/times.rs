//! How long each test took.
//!
//! A test binary tells when a test ends and not when it begins. But it begins tests in the order of their names, as many at a time as it has threads: each
//! one begins when an earlier one makes room, the tenth of all with four threads when the sixth to end has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use kruise_testkit::progress::seconds;

/// How many of the slowest tests are told.
const SLOWEST: usize = 10;

/// When each test of a binary ended, in this order.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// How much of the output was looked at.
    read: usize,
    ends: Vec<(String, Duration)>,
}

impl Ends {
    /// Looks at what was said since the last time.
    pub(super) fn look(&mut self, output: &[u8], now: Duration) {
        let new = output.get(self.read..).unwrap_or_default();
        let Some(last) = new.iter().rposition(|byte| *byte == b'\n') else {
            return;
        };
        let lines = String::from_utf8_lossy(new.get(..last).unwrap_or_default()).into_owned();
        self.ends
            .extend(lines.lines().filter_map(ended).map(|name| (name.to_owned(), now)));
        self.read += last + 1;
    }

    /// How long each test took, when so many were under way at a time.
    pub(super) fn times(self, threads: usize) -> Vec<(String, Duration)> {
        let mut by_name: Vec<&(String, Duration)> = self.ends.iter().collect();
        by_name.sort();
        let begin = |number: usize| number.checked_sub(threads).and_then(|earlier| self.ends.get(earlier));
        let time = |(number, (name, end)): (usize, &(String, Duration))| {
            let begin = begin(number).map_or(Duration::ZERO, |(_, end)| *end);
            (name.clone(), end.saturating_sub(begin))
        };
        by_name.into_iter().enumerate().map(time).collect()
    }
}

/// The name in a line such as `test a::b ... ok`.
fn ended(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.trim_end().trim_end_matches(" - should panic");
    (outcome == "ok" || outcome.starts_with("FAILED")).then_some(name)
}

/// What took how long in this run, and in earlier ones.
#[derive(Debug, Default)]
pub(super) struct Times {
    tests: Vec<(String, Duration)>,
    /// Seconds of a binary, when it was last run as a whole.
    binaries: BTreeMap<String, f64>,
}

impl Times {
    /// With what is known from earlier runs.
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        Self {
            tests: Vec::new(),
            binaries: serde_json::from_str(&text).unwrap_or_default(),
        }
    }

    pub(super) fn add_test(&mut self, name: String, time: Duration) {
        self.tests.push((name, time));
    }

    pub(super) fn add_binary(&mut self, name: String, time: Duration) {
        self.binaries.insert(name, time.as_secs_f64());
    }

    /// How long a binary takes; one that nobody knows may take longest.
    pub(super) fn expected(&self, binary: &str) -> Duration {
        let known = self.binaries.get(binary).copied();
        known.map_or(Duration::MAX, |seconds| {
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        })
    }

    /// Keeps what the next run begins with.
    pub(super) fn write(&self) -> Result<()> {
        std::fs::write(file(), serde_json::to_vec_pretty(&self.binaries)?)?;
        Ok(())
    }

    /// The tests that took longest.
    pub(super) fn slowest(&self) -> impl Iterator<Item = String> {
        let mut all: Vec<_> = self.tests.iter().collect();
        all.sort_by(|(_, one), (_, other)| other.cmp(one));
        let line = |(name, time): &(String, Duration)| format!("{:>8}  {name}", seconds(*time));
        all.into_iter().take(SLOWEST).map(line).collect::<Vec<_>>().into_iter()
    }
}

fn file() -> PathBuf {
    crate::root().join("target/test-times.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn given_two_at_a_time_then_a_test_begins_when_an_earlier_one_has_ended() {
        let mut ends = Ends::default();
        ends.look(b"running 4 tests\ntest b ... ok\ntest a - should", second(2));
        ends.look(
            b"running 4 tests\ntest b ... ok\ntest a - should panic ... ok\n",
            second(5),
        );
        ends.look(
            b"running 4 tests\ntest b ... ok\ntest a - should panic ... ok\ntest d     ... FAILED\ntest c ... ok\n\ntest result: ok. 4 passed\n",
            second(9),
        );
        let times = ends.times(2);
        let times: Vec<_> = times
            .iter()
            .map(|(name, time)| (name.as_str(), time.as_secs()))
            .collect();
        assert_eq!(times, [("a", 5), ("b", 2), ("c", 7), ("d", 4)]);
    }

    #[test]
    fn the_slowest_tests_are_told_first() {
        let mut times = Times::default();
        for number in 1..20 {
            times.add_test(format!("test {number}"), second(number));
        }
        let slowest: Vec<String> = times.slowest().collect();
        assert_eq!(slowest.len(), SLOWEST);
        assert_eq!(slowest[0], "   19.0s  test 19");
    }

    #[test]
    fn a_binary_that_nobody_knows_goes_first() {
        let mut times = Times::default();
        times.add_binary("a cluster".to_owned(), second(30));
        assert!(times.expected("b cluster") > times.expected("a cluster"));
    }
}
