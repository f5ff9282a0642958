use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use Priority::{Background, Change};

fn state() -> (State<u8>, Instant) {
    (State::new(Limits::default()), Instant::now())
}

fn drain(state: &mut State<u8>, now: Instant) -> Vec<u8> {
    std::iter::from_fn(|| state.take(now).map(|(key, ..)| key)).collect()
}

#[test]
fn given_keys_then_changes_come_first_and_each_row_is_in_order() {
    let (mut state, now) = state();
    for (key, priority) in [
        (1, Background),
        (2, Change),
        (3, Background),
        (4, Change),
        (2, Background),
    ] {
        state.add(key, priority, now);
    }
    assert_eq!(drain(&mut state, now), [2, 4, 1, 3]);
}

#[test]
fn given_a_key_of_the_background_when_it_changes_then_it_moves_up() {
    let (mut state, now) = state();
    assert!(state.add(1, Background, now));
    assert!(state.add(2, Change, now));
    assert!(!state.add(1, Change, now));
    assert_eq!(state.len(), 2);
    assert_eq!(drain(&mut state, now), [2, 1]);
}

#[test]
fn given_changes_without_end_then_the_background_gets_its_turn() {
    let (mut state, now) = state();
    state.add(200, Background, now);
    for round in 0..=TURN {
        state.add(0, Change, now);
        let (key, ..) = state.take(now).expect("a key");
        state.done(&key, now);
        assert_eq!(key == 200, round == TURN, "round {round}");
    }
}

#[test]
fn given_a_key_in_flight_when_added_then_it_comes_back_once_after_the_work() {
    let (mut state, now) = state();
    state.add(1, Change, now);
    assert_eq!(drain(&mut state, now), [1]);
    assert!(state.add(1, Background, now));
    assert!(!state.add(1, Change, now));
    assert_eq!(drain(&mut state, now), [0_u8; 0]);
    assert_eq!(state.done(&1, now + Duration::from_secs(2)), Duration::from_secs(2));
    assert_eq!(state.take(now), Some((1, Change, Duration::ZERO)));
    state.done(&1, now);
    assert_eq!(drain(&mut state, now), [0_u8; 0]);
    assert!(state.entries.is_empty(), "nothing is remembered of a key that is done");
}

#[test]
fn given_a_key_for_later_then_the_earliest_time_and_the_best_priority_count() {
    let (mut state, now) = state();
    let after = |seconds| now + Duration::from_secs(seconds);
    state.add_after(1, Background, Duration::from_secs(5), now);
    state.add_after(1, Change, Duration::from_secs(9), now);
    state.add_after(2, Change, Duration::from_secs(4), now);
    state.add_after(2, Change, Duration::from_secs(3), now);
    assert_eq!(state.next_due(), Some(after(3)));
    assert_eq!(drain(&mut state, after(2)), [0_u8; 0]);
    assert_eq!(drain(&mut state, after(3)), [2]);
    assert_eq!(state.next_due(), Some(after(5)));
    assert_eq!(state.take(after(5)), Some((1, Change, Duration::ZERO)));
    assert_eq!(state.next_due(), None);
}

#[test]
fn given_a_key_for_later_when_it_is_due_in_flight_then_it_comes_back_after_the_work() {
    let (mut state, now) = state();
    state.add(1, Change, now);
    state.take(now).expect("a key");
    state.add_after(1, Change, Duration::from_secs(1), now);
    let later = now + Duration::from_secs(2);
    assert_eq!(drain(&mut state, later), [0_u8; 0]);
    state.done(&1, later);
    assert_eq!(drain(&mut state, later), [1]);
}

#[test]
fn given_a_delay_beyond_all_times_then_there_is_no_panic() {
    let (mut state, now) = state();
    state.add_after(1, Change, Duration::MAX, now);
    state.add_after(1, Change, Duration::ZERO, now);
    assert_eq!(drain(&mut state, now), [1]);
}

#[test]
fn given_failures_then_the_slower_of_both_limits_counts() {
    let limits = Limits {
        burst: 2,
        rate: 1.0,
        ..Limits::default()
    };
    let (mut state, now) = (State::new(limits), Instant::now());
    let pauses: Vec<_> = (0..4)
        .map(|_| state.add_limited(1, Change, Duration::MAX, now).as_millis())
        .collect();
    assert_eq!(pauses, [5, 10, 1000, 2000]);
    assert_eq!(state.next_due(), Some(now + Duration::from_millis(5)));
}

#[test]
fn given_a_shut_down_then_nothing_is_handed_out_or_taken_in_but_work_can_end() {
    let (mut state, now) = state();
    state.add(1, Change, now);
    state.take(now).expect("a key");
    state.add(1, Change, now);
    state.add(2, Change, now);
    state.add_after(3, Change, Duration::from_secs(1), now);
    state.shut_down();
    assert!(!state.add(4, Change, now));
    state.add_after(5, Change, Duration::from_secs(1), now);
    assert_eq!(drain(&mut state, now + Duration::from_secs(9)), [0_u8; 0]);
    assert_eq!(state.done(&1, now), Duration::ZERO);
    assert_eq!((state.len(), state.next_due(), state.entries.len()), (0, None, 0));
}

#[test]
fn given_keys_in_flight_then_their_ages_are_told() {
    let (mut state, now) = state();
    state.add(1, Change, now);
    state.take(now);
    state.add(2, Change, now);
    state.take(now + Duration::from_secs(2));
    let ages = state.ages(now + Duration::from_secs(5));
    assert_eq!((ages.total.as_secs(), ages.longest.as_secs()), (8, 5));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Priority),
    After(u8, Priority, u64),
    Limited(u8, Priority),
    Take,
    Done(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6_u8;
    let priority = || prop_oneof![Just(Background), Just(Change)];
    prop_oneof![
        4 => (key(), priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (key(), priority(), 0..50_u64).prop_map(|(key, priority, delay)| Step::After(key, priority, delay)),
        1 => (key(), priority()).prop_map(|(key, priority)| Step::Limited(key, priority)),
        4 => Just(Step::Take),
        3 => key().prop_map(Step::Done),
        2 => (0..60_u64).prop_map(Step::Wait),
    ]
}

/// What a simple-minded observer knows: who is owed now, who is owed later, and who is in flight.
#[derive(Default)]
struct Observer {
    owed: BTreeSet<u8>,
    later: BTreeMap<u8, Instant>,
    in_flight: BTreeSet<u8>,
}

impl Observer {
    fn owe_at(&mut self, key: u8, due: Instant) {
        let earliest = self.later.get(&key).map_or(due, |known| due.min(*known));
        self.later.insert(key, earliest);
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        let due = self.later.extract_if(.., |_, due| *due <= now);
        self.owed.extend(due.map(|(key, _)| key));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn given_any_steps_then_no_key_is_lost_none_is_handed_out_twice_and_changes_come_first(
        steps in prop::collection::vec(step(), 0..120)
    ) {
        let (mut state, mut now) = state();
        let mut observer = Observer::default();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    state.add(key, priority, now);
                    observer.owed.insert(key);
                }
                Step::After(key, priority, delay) => {
                    let delay = Duration::from_millis(delay);
                    state.add_after(key, priority, delay, now);
                    // No delay is the same as now.
                    if delay.is_zero() {
                        observer.owed.insert(key);
                    } else {
                        observer.owe_at(key, now + delay);
                    }
                }
                Step::Limited(key, priority) => {
                    let pause = state.add_limited(key, priority, Duration::MAX, now);
                    observer.owe_at(key, now + pause);
                }
                Step::Take => {
                    observer.look_at_the_clock(now);
                    let taken = state.take(now);
                    if let Some((key, priority, _)) = taken {
                        prop_assert!(observer.in_flight.insert(key), "{key} was handed out twice");
                        prop_assert!(observer.owed.remove(&key), "{key} was handed out without being due");
                        let waiting = state.ready[Change as usize].len();
                        prop_assert!(priority == Change || waiting == 0 || state.changes_in_a_row == 0,
                                     "the background came first");
                    } else {
                        prop_assert!(observer.owed.is_subset(&observer.in_flight), "a key is lost");
                    }
                }
                Step::Done(key) => {
                    if observer.in_flight.remove(&key) {
                        state.done(&key, now);
                    }
                }
                Step::Wait(millis) => now += Duration::from_millis(millis),
            }
        }
        // In the end everything that is owed comes out, and nothing else.
        for key in std::mem::take(&mut observer.in_flight) {
            state.done(&key, now);
        }
        loop {
            observer.look_at_the_clock(now);
            if let Some((key, ..)) = state.take(now) {
                prop_assert!(observer.owed.remove(&key), "{key} was handed out without being due");
                state.done(&key, now);
            } else if let Some(due) = state.next_due() {
                prop_assert!(due > now);
                now = due;
            } else {
                break;
            }
        }
        prop_assert!(observer.owed.is_empty() && observer.later.is_empty(), "a key is lost");
        prop_assert!(state.entries.is_empty());
    }
}
