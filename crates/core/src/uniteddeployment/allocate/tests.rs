//! Shares as the specification has them, and what holds for all of them.

use kruise_api::shared::IntOrPercent;
use proptest::prelude::*;

use super::*;

/// A subset that owns its limits.
#[derive(Clone, Debug, Default)]
struct Subset {
    name: String,
    replicas: Option<IntOrPercent>,
    min: Option<IntOrPercent>,
    max: Option<IntOrPercent>,
    current: Option<i32>,
    ready: i32,
    is_unschedulable: bool,
    is_marked: bool,
    reserved: i32,
}

impl Subset {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn replicas(self, replicas: impl Into<IntOrPercent>) -> Self {
        Self {
            replicas: Some(replicas.into()),
            ..self
        }
    }

    fn limits(self, min: Option<i32>, max: Option<i32>) -> Self {
        Self {
            min: min.map(IntOrPercent::Int),
            max: max.map(IntOrPercent::Int),
            ..self
        }
    }

    fn runs(self, current: i32, ready: i32) -> Self {
        Self {
            current: Some(current),
            ready,
            ..self
        }
    }

    fn share(&self) -> Share<'_> {
        Share {
            name: &self.name,
            replicas: self.replicas.as_ref(),
            min: self.min.as_ref(),
            max: self.max.as_ref(),
            current: self.current,
            ready: self.ready,
            is_unschedulable: self.is_unschedulable,
            is_marked: self.is_marked,
            reserved: self.reserved,
        }
    }
}

fn divide(total: i32, mode: Mode, subsets: &[Subset]) -> Result<Vec<i32>, String> {
    let shares: Vec<Share<'_>> = subsets.iter().map(Subset::share).collect();
    allocate(total, mode, &shares)
}

fn abc() -> Vec<Subset> {
    ["a", "b", "c"].map(Subset::named).into()
}

#[test]
fn given_nothing_specified_then_the_rest_goes_to_the_largest_and_last() {
    assert_eq!(divide(5, Mode::Fixed, &abc()), Ok(vec![1, 2, 2]));
    let mut grown: Vec<Subset> = abc().into_iter().zip([1, 2, 2]).map(|(s, n)| s.runs(n, n)).collect();
    assert_eq!(divide(6, Mode::Fixed, &grown), Ok(vec![2, 2, 2]));
    grown[0].current = Some(9);
    assert_eq!(divide(7, Mode::Fixed, &grown), Ok(vec![3, 2, 2]));
    assert_eq!(divide(3, Mode::Fixed, &[]), Ok(Vec::new()));
}

#[test]
fn given_shares_then_halves_are_rounded_up() {
    for (total, a) in [(10, 2), (12, 2), (13, 3)] {
        let subsets = [
            Subset::named("a").replicas("20%"),
            Subset::named("b"),
            Subset::named("c"),
        ];
        let shares = divide(total, Mode::Fixed, &subsets).unwrap();
        assert_eq!((shares[0], shares.iter().sum::<i32>()), (a, total), "{total}");
    }
    // What is no number counts as not said.
    let odd = [Subset::named("a").replicas("many"), Subset::named("b").replicas(1)];
    assert_eq!(divide(4, Mode::Fixed, &odd), Ok(vec![3, 1]));
}

#[test]
fn given_all_specified_when_the_total_is_another_then_it_cannot_be_divided() {
    let subsets = [Subset::named("a").replicas(6), Subset::named("b").replicas(4)];
    assert_eq!(divide(10, Mode::Fixed, &subsets), Ok(vec![6, 4]));
    assert!(divide(8, Mode::Fixed, &subsets).is_err());
    assert!(divide(11, Mode::Fixed, &subsets).is_err());
}

#[test]
fn given_limits_then_minima_come_first_and_then_the_order() {
    let subsets = [
        Subset::named("a").limits(Some(2), Some(4)),
        Subset::named("b").limits(Some(2), None),
    ];
    for (total, shares) in [(5, [3, 2]), (3, [2, 1]), (9, [4, 5]), (0, [0, 0])] {
        assert_eq!(divide(total, Mode::Fixed, &subsets), Ok(shares.to_vec()), "{total}");
    }
}

#[test]
fn given_a_subset_without_room_then_its_ready_pods_stay_and_others_go_elsewhere() {
    let mut subsets = vec![
        Subset::named("a").limits(None, Some(4)).runs(4, 1),
        Subset::named("b").runs(2, 2),
    ];
    subsets[0].is_unschedulable = true;
    assert_eq!(divide(6, Mode::Adaptive, &subsets), Ok(vec![1, 5]));
    // Recovered: what runs in b stays there.
    subsets[0] = Subset::named("a").limits(None, Some(4)).runs(1, 1);
    subsets[1] = Subset::named("b").runs(5, 5);
    assert_eq!(divide(6, Mode::Adaptive, &subsets), Ok(vec![1, 5]));
    assert_eq!(divide(8, Mode::Adaptive, &subsets), Ok(vec![3, 5]));
    subsets[0].min = Some(IntOrPercent::Int(5));
    assert!(divide(6, Mode::Adaptive, &subsets).is_err());
}

#[test]
fn given_reservation_then_waiting_pods_stay_and_are_made_up_for() {
    let waiting = |reserved: i32| {
        let mut a = Subset::named("a").runs(2, 2 - reserved);
        (a.reserved, a.is_unschedulable, a.is_marked) = (reserved, reserved > 0, true);
        vec![a, Subset::named("b").runs(2, 2)]
    };
    for (reserved, shares) in [(2, [2, 2]), (1, [2, 1]), (0, [2, 0])] {
        assert_eq!(
            divide(2, Mode::Reserving, &waiting(reserved)),
            Ok(shares.to_vec()),
            "{reserved}"
        );
    }
    let mut a = Subset::named("a").limits(None, Some(4)).runs(4, 1);
    (a.reserved, a.is_unschedulable) = (3, true);
    assert_eq!(
        divide(6, Mode::Reserving, &[a, Subset::named("b").runs(2, 2)]),
        Ok(vec![4, 5])
    );
}

fn any_subsets() -> impl Strategy<Value = Vec<Subset>> {
    let limits = (proptest::option::of(0..6i32), proptest::option::of(0..6i32));
    let state = (
        proptest::option::of(0..8i32),
        0..8i32,
        any::<bool>(),
        any::<bool>(),
        0..8i32,
    );
    let one = (limits, state).prop_map(|((min, more), (current, ready, stuck, marked, reserved))| {
        let max = more.map(|more| min.unwrap_or_default() + more);
        Subset {
            min: min.map(IntOrPercent::Int),
            max: max.map(IntOrPercent::Int),
            current,
            ready: ready.min(current.unwrap_or_default()),
            is_unschedulable: stuck && current.is_some(),
            is_marked: marked,
            reserved: if stuck {
                reserved.min(current.unwrap_or_default())
            } else {
                0
            },
            ..Subset::default()
        }
    });
    proptest::collection::vec(one, 1..5).prop_map(|mut subsets| {
        for (number, subset) in subsets.iter_mut().enumerate() {
            subset.name = format!("s{number}");
        }
        subsets
    })
}

/// What a user asks for a subset, or nothing.
fn any_wanted() -> impl Strategy<Value = Option<IntOrPercent>> {
    let share = (0..=100i32).prop_map(|share| IntOrPercent::Text(format!("{share}%").into()));
    proptest::option::of(prop_oneof![(0..8i32).prop_map(IntOrPercent::Int), share])
}

fn number(value: Option<&IntOrPercent>, otherwise: i32) -> i32 {
    value.map_or(otherwise, |value| value.round_of(0).unwrap())
}

proptest! {
    #[test]
    fn shares_sum_up_and_stay_within_limits(mut subsets in any_subsets(), total in 0..40i32) {
        // As validation wants it, one has no limit.
        subsets[0].max = None;
        subsets[0].min = subsets[0].min.take().or(Some(IntOrPercent::Int(0)));
        let shares = divide(total, Mode::Fixed, &subsets).unwrap();
        prop_assert_eq!(shares.iter().sum::<i32>(), total);
        let least: i32 = subsets.iter().map(|subset| number(subset.min.as_ref(), 0)).sum();
        for (share, subset) in shares.iter().zip(&subsets) {
            prop_assert!(*share <= number(subset.max.as_ref(), i32::MAX));
            prop_assert!(total < least || *share >= number(subset.min.as_ref(), 0));
        }
        // More Pods: nobody gets fewer.
        let more = divide(total + 1, Mode::Fixed, &subsets).unwrap();
        prop_assert!(shares.iter().zip(&more).all(|(before, after)| before <= after));
    }

    #[test]
    fn average_shares_sum_up_and_move_only_what_changes(count in 1..6usize, total in 0..40i32) {
        let mut subsets: Vec<Subset> = (0..count).map(|number| Subset::named(&format!("s{number}"))).collect();
        let shares = divide(total, Mode::Fixed, &subsets).unwrap();
        prop_assert_eq!(shares.iter().sum::<i32>(), total);
        for (subset, share) in subsets.iter_mut().zip(&shares) {
            subset.current = Some(*share);
        }
        prop_assert_eq!(&divide(total, Mode::Fixed, &subsets).unwrap(), &shares);
        let more = divide(total + 1, Mode::Fixed, &subsets).unwrap();
        prop_assert_eq!(shares.iter().zip(&more).filter(|(before, after)| before != after).count(), 1);
        prop_assert!(shares.iter().zip(&more).all(|(before, after)| before <= after));
    }

    #[test]
    fn average_shares_move_as_few_pods_as_there_is_need(pods in proptest::collection::vec(0..12i32, 1..6)) {
        let total: i32 = pods.iter().sum();
        let named = pods.iter().enumerate().map(|(number, count)| Subset::named(&format!("s{number}")).runs(*count, *count));
        let shares = divide(total, Mode::Fixed, &named.collect::<Vec<_>>()).unwrap();
        let moved = |shares: &[i32]| -> i32 { shares.iter().zip(&pods).map(|(share, count)| (share - count).max(0)).sum() };
        let count = i32::try_from(pods.len()).unwrap();
        let (each, more) = (total / count, total % count);
        prop_assert!(shares.iter().all(|share| (each..=each + 1).contains(share)));
        // All the other ways to give what cannot be divided.
        for chosen in 0..1_u32 << pods.len() {
            if i32::try_from(chosen.count_ones()).unwrap() == more {
                let other: Vec<i32> = (0..pods.len()).map(|bit| each + i32::from(chosen & (1 << bit) != 0)).collect();
                prop_assert!(moved(&shares) <= moved(&other), "{:?} moves more than {:?}", shares, other);
            }
        }
    }

    #[test]
    fn specified_shares_are_given_and_the_rest_sums_up(wanted in proptest::collection::vec(any_wanted(), 1..6), total in 0..40i32) {
        let named = wanted.iter().enumerate().map(|(number, replicas)| Subset {
            replicas: replicas.clone(),
            ..Subset::named(&format!("s{number}"))
        });
        let mut subsets: Vec<Subset> = named.collect();
        let fixed: i32 = wanted.iter().flatten().map(|replicas| replicas.round_of(total).unwrap()).sum();
        let is_possible = fixed == total || fixed < total && wanted.iter().any(Option::is_none);
        let Ok(shares) = divide(total, Mode::Fixed, &subsets) else {
            prop_assert!(!is_possible);
            return Ok(());
        };
        prop_assert!(is_possible);
        prop_assert_eq!(shares.iter().sum::<i32>(), total);
        for ((subset, share), replicas) in subsets.iter_mut().zip(&shares).zip(&wanted) {
            subset.current = Some(*share);
            if let Some(replicas) = replicas {
                prop_assert_eq!(*share, replicas.round_of(total).unwrap());
            }
        }
        // Where it is as it should be, nothing moves.
        prop_assert_eq!(divide(total, Mode::Fixed, &subsets).unwrap(), shares);
    }

    #[test]
    fn adaptive_shares_never_move_ready_pods_and_rest_where_they_are(subsets in any_subsets(), total in 0..40i32) {
        let shares = divide(total, Mode::Adaptive, &subsets).unwrap();
        prop_assert!(shares.iter().sum::<i32>() <= total);
        let ready: i32 = subsets.iter().map(|subset| subset.ready.max(number(subset.min.as_ref(), 0))).sum();
        for (share, subset) in shares.iter().zip(&subsets) {
            let (min, max) = (number(subset.min.as_ref(), 0), number(subset.max.as_ref(), i32::MAX));
            prop_assert!(*share <= max);
            // Where all that are ready find a place, each of them stays.
            prop_assert!(ready > total || *share >= subset.ready.min(max));
            prop_assert!(!subset.is_unschedulable || *share <= subset.ready.max(min));
        }
        // Once the Pods are there and ready, nothing moves any more.
        let settled: Vec<Subset> = subsets.iter().zip(&shares).map(|(subset, share)| subset.clone().runs(*share, *share)).collect();
        prop_assert_eq!(divide(total, Mode::Adaptive, &settled).unwrap(), shares);
    }

    #[test]
    fn reserved_pods_stay_and_the_others_sum_up(mut subsets in any_subsets(), total in 0..40i32) {
        // There is always one more with room.
        subsets.push(Subset::named("z").limits(Some(0), None));
        let shares = divide(total, Mode::Reserving, &subsets).unwrap();
        let least: i32 = subsets.iter().map(|subset| number(subset.min.as_ref(), 0)).sum();
        let mut placed = 0;
        for (share, subset) in shares.iter().zip(&subsets) {
            prop_assert!(*share <= number(subset.max.as_ref(), i32::MAX));
            let counts_room = subset.current.is_some() && (subset.is_unschedulable || subset.is_marked);
            let room = subset.current.unwrap_or_default() - subset.reserved;
            placed += if counts_room { (*share).min(room) } else { *share };
        }
        prop_assert!(placed == total || total < least, "{} of {}", placed, total);
    }
}
