//! Which ordinals a set wants: so many as it has replicas, counted from its start, without those that are reserved.
//!
//! - The start is 0, or `ordinals.start` with the gate `StatefulSetStartOrdinal`.
//! - `reserveOrdinals` has numbers and ranges such as `"5-7"`. If one of the ranges cannot be read, nothing is reserved.
//! - A reserved ordinal takes no place: the ones behind it move up, so there are always as many as there are replicas.
//! - The *rank* of an ordinal is how many wanted ones are below it. Partitions count ranks.
//!
//! Nothing here is as long as the numbers are high: `"0-2000000000"` is one range.

use std::ops::RangeInclusive;

use kruise_api::gates::{Gate, Gates};
use kruise_api::statefulset::v1beta1::{ReservedOrdinals, StatefulSet};

/// The ordinals that a set wants, in runs without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    runs: Vec<Run>,
}

/// Ordinals in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    ordinals: RangeInclusive<i32>,
    /// Wanted ordinals below.
    rank: i64,
}

impl Ordinals {
    /// Returns the ordinals of a set.
    pub fn of(set: &StatefulSet, gates: Gates) -> Self {
        Self::new(
            start(set, gates),
            set.spec.replicas.unwrap_or(1),
            &set.spec.reserve_ordinals,
        )
    }

    /// Returns so many ordinals from a start, without those that are reserved.
    pub fn new(start: i32, replicas: i32, reserved: &[ReservedOrdinals]) -> Self {
        let reserved: Result<Vec<_>, _> = reserved.iter().map(ReservedOrdinals::range).collect();
        let mut reserved = reserved.unwrap_or_default();
        reserved.sort_by_key(|range| *range.start());
        let mut runs = Vec::new();
        let (mut next, mut rank, replicas) = (i64::from(start), 0, i64::from(replicas));
        let ends = reserved
            .iter()
            .map(|range| (i64::from(*range.start()), i64::from(*range.end())));
        // Behind the last reserved one there is room for all.
        for (from, to) in ends.chain([(i64::from(i32::MAX) + 1, i64::MAX - 1)]) {
            let count = (from - next).min(replicas - rank);
            if count > 0 {
                // Both fit: they are below an end that is an ordinal itself.
                if let (Ok(first), Ok(last)) = (i32::try_from(next), i32::try_from(next + count - 1)) {
                    runs.push(Run {
                        ordinals: first..=last,
                        rank,
                    });
                }
                rank += count;
            }
            next = next.max(to + 1);
        }
        Self { runs }
    }

    /// How many there are.
    pub fn count(&self) -> i64 {
        self.runs.last().map_or(0, |last| last.rank + last.len())
    }

    /// Returns the rank of an ordinal; none when it is not wanted.
    pub fn rank(&self, ordinal: i32) -> Option<i64> {
        let behind = self.runs.partition_point(|run| *run.ordinals.start() <= ordinal);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        let is_in = run.ordinals.contains(&ordinal);
        is_in.then(|| run.rank + i64::from(ordinal) - i64::from(*run.ordinals.start()))
    }

    /// True when the set wants a Pod with this ordinal.
    pub fn contains(&self, ordinal: i32) -> bool {
        self.rank(ordinal).is_some()
    }

    /// Returns the ordinals, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i32> + '_ {
        self.runs.iter().flat_map(|run| run.ordinals.clone())
    }
}

impl Run {
    fn len(&self) -> i64 {
        i64::from(*self.ordinals.end()) - i64::from(*self.ordinals.start()) + 1
    }
}

/// Returns the first ordinal.
pub fn start(set: &StatefulSet, gates: Gates) -> i32 {
    let start = set.spec.ordinals.as_ref().map(|ordinals| ordinals.start);
    start
        .filter(|_| gates.enabled(Gate::StatefulSetStartOrdinal))
        .unwrap_or(0)
        .max(0)
}

/// Returns the name of an ordinal's Pod.
pub fn pod_name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// Returns the set's name and the ordinal in a Pod's name; none when it is not the name of a Pod of any set.
pub fn of_pod_name(name: &str) -> Option<(&str, i32)> {
    let (set, digits) = name.rsplit_once('-')?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let ordinal = digits.parse().ok().filter(|_| is_plain)?;
    Some((set, ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinals(start: i32, replicas: i32, reserved: &[ReservedOrdinals]) -> Vec<i32> {
        Ordinals::new(start, replicas, reserved).iter().collect()
    }

    #[test]
    fn given_reserved_ordinals_then_others_take_their_place() {
        let one = |ordinal: i32| ReservedOrdinals::from(ordinal);
        let range = |text: &str| ReservedOrdinals::from(text);
        for (what, start, replicas, reserved, expected) in [
            ("none", 0, 3, vec![], vec![0, 1, 2]),
            ("one", 0, 3, vec![one(1)], vec![0, 2, 3]),
            ("a range", 0, 4, vec![one(1), range("3-5")], vec![0, 2, 6, 7]),
            (
                "unsorted and overlapping",
                0,
                3,
                vec![range("2-4"), one(0), range("3-6")],
                vec![1, 7, 8],
            ),
            ("beyond the end", 0, 2, vec![one(5)], vec![0, 1]),
            ("a start", 2, 4, vec![one(1), one(3)], vec![2, 4, 5, 6]),
            ("an unreadable range", 0, 2, vec![one(0), range("5-3")], vec![0, 1]),
            ("a negative one", 0, 2, vec![one(-1)], vec![0, 1]),
            ("no replicas", 0, 0, vec![one(0)], vec![]),
            ("fewer than none", 0, -1, vec![], vec![]),
            (
                "a huge range",
                0,
                2,
                vec![range("0-2147483640")],
                vec![2_147_483_641, 2_147_483_642],
            ),
            ("no room at the end", i32::MAX, 5, vec![], vec![i32::MAX]),
        ] {
            let found = ordinals(start, replicas, &reserved);
            assert_eq!(found, expected, "{what}");
            let wanted = Ordinals::new(start, replicas, &reserved);
            for (rank, ordinal) in (0..).zip(&found) {
                assert_eq!(wanted.rank(*ordinal), Some(rank), "{what}");
            }
        }
    }

    #[test]
    fn given_absurd_numbers_then_there_are_no_more_than_ordinals() {
        let all = Ordinals::new(0, i32::MAX, &[]);
        assert_eq!(
            (all.count(), all.rank(i32::MAX - 1)),
            (i64::from(i32::MAX), Some(i64::from(i32::MAX) - 1))
        );
        let last = Ordinals::new(i32::MAX - 1, 5, &[]);
        assert_eq!(last.iter().collect::<Vec<_>>(), [i32::MAX - 1, i32::MAX]);
        assert_eq!(
            Ordinals::new(0, 5, &[ReservedOrdinals::from("0-2147483647")]).count(),
            0
        );
    }

    #[test]
    fn given_an_ordinal_that_is_not_wanted_then_it_has_no_rank() {
        let wanted = Ordinals::new(2, 3, &[ReservedOrdinals::from(3)]);
        assert_eq!(
            [0, 2, 3, 4, 5, 6].map(|ordinal| wanted.rank(ordinal)),
            [None, Some(0), None, Some(1), Some(2), None]
        );
    }

    #[test]
    fn given_a_pods_name_then_its_set_and_ordinal_are_in_it() {
        for (name, expected) in [
            ("web-0", Some(("web", 0))),
            ("my-web-12", Some(("my-web", 12))),
            ("web-01", None),
            ("web-", None),
            ("web", None),
            ("web-x", None),
            ("web-+1", None),
            ("web-99999999999", None),
            ("-3", Some(("", 3))),
        ] {
            assert_eq!(of_pod_name(name), expected, "{name}");
        }
    }
}
