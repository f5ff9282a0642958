//! How many writes may be under way at the same time.
//!
//! - As long as the server answers well, one more write is let through with each round of answers. When it pushes back (429, 503) there are a third fewer,
//!   when it becomes slow a tenth fewer, at most once a second. When it asks for patience, it gets it.
//! - The server is slow when everything is slow. What an answer should take is known for each verb and resource by itself: a webhook of somebody else's that
//!   makes one of them slow, or never answers, says nothing about the server while the others are quick.
//! - Each controller may always have a few writes under way, whatever the others do.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

const START: f64 = 64.0;
const FEWEST: f64 = 2.0;
const MOST: f64 = 256.0;
/// Writes that each controller may always have under way.
const FLOOR: usize = 4;
/// Cuts are at least this far apart: answers that were under way already say nothing new.
const BETWEEN_CUTS: Duration = Duration::from_secs(1);
/// Answers faster than this are never called slow.
const FAST_ENOUGH: Duration = Duration::from_millis(500);
/// An answer that is older says nothing about now.
const OF_LATE: Duration = Duration::from_secs(10);
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);

/// Verb and resource of a write: what is alike in how long it takes.
pub(super) type Sort = (&'static str, String);

/// How a write ended, as far as the pace is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// The server answered, whatever it said, or was given up on after this time.
    In(Sort, Duration),
    /// The server has too much to do, and may have said how long to wait.
    Overloaded(Option<Duration>),
    /// Nothing is known, e.g. the caller gave up.
    Nothing,
}

/// The limit as a state machine.
#[derive(Debug)]
struct Limit {
    writes: f64,
    last_cut: Option<Instant>,
    latencies: HashMap<Sort, Latency>,
}

/// How long one sort of writes takes, in seconds.
#[derive(Debug)]
struct Latency {
    /// When the server has nothing else to do.
    fastest: f64,
    /// Of late.
    recent: f64,
    last: Instant,
}

impl Latency {
    fn new(seconds: f64, now: Instant) -> Self {
        Self {
            fastest: seconds,
            recent: seconds,
            last: now,
        }
    }

    fn learn(&mut self, seconds: f64, now: Instant) {
        self.fastest = (self.fastest * 1.01).min(seconds);
        self.recent = 0.9 * self.recent + 0.1 * seconds;
        self.last = now;
    }

    fn is_slow(&self) -> bool {
        self.recent > 4.0 * self.fastest && self.recent > FAST_ENOUGH.as_secs_f64()
    }
}

impl Limit {
    fn new() -> Self {
        Self {
            writes: START,
            last_cut: None,
            latencies: HashMap::new(),
        }
    }

    fn whole(&self) -> usize {
        // Between 2 and 256.
        #[allow(clippy::cast_sign_loss)]
        let whole = self.writes as usize;
        whole
    }

    fn answered(&mut self, sort: Sort, latency: Duration, in_flight: usize, now: Instant) {
        let seconds = latency.as_secs_f64();
        self.latencies
            .entry(sort)
            .and_modify(|known| known.learn(seconds, now))
            .or_insert_with(|| Latency::new(seconds, now));
        let mut of_late = self
            .latencies
            .values()
            .filter(|each| now.saturating_duration_since(each.last) < OF_LATE);
        if of_late.all(Latency::is_slow) {
            self.cut(0.9, now);
        } else if in_flight * 2 >= self.whole() {
            // Nothing is learnt about the limit while few writes are under way.
            self.writes = (self.writes + 1.0 / self.writes).min(MOST);
        }
    }

    fn cut(&mut self, factor: f64, now: Instant) {
        if self
            .last_cut
            .is_none_or(|last| now.saturating_duration_since(last) >= BETWEEN_CUTS)
        {
            self.writes = (self.writes * factor).max(FEWEST);
            self.last_cut = Some(now);
        }
    }
}

/// The limit with the waiting.
#[derive(Debug)]
pub(super) struct Pace {
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    /// Permits that exist, free or in use.
    permits: usize,
    not_before: Option<Instant>,
}

/// The writes that one controller may always have under way.
#[derive(Debug)]
pub(super) struct Floor(Semaphore);

impl Floor {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(FLOOR))
    }
}

/// One write under way.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    pace: &'a Pace,
    /// Where the place comes from, when it is one of the controller's own.
    floor: Option<&'a Floor>,
    answered: Answered,
}

impl Pace {
    pub(super) fn new() -> Self {
        let limit = Limit::new();
        Self {
            free: Semaphore::new(limit.whole()),
            state: Mutex::new(State {
                permits: limit.whole(),
                limit,
                not_before: None,
            }),
        }
    }

    /// Waits for its turn.
    pub(super) async fn begin<'a>(&'a self, floor: &'a Floor) -> Slot<'a> {
        // Neither is ever closed.
        let own = tokio::select! {
            biased;
            permit = floor.0.acquire() => permit.map(tokio::sync::SemaphorePermit::forget).map(|()| Some(floor)),
            permit = self.free.acquire() => permit.map(tokio::sync::SemaphorePermit::forget).map(|()| None),
        };
        let slot = Slot {
            pace: self,
            floor: own.unwrap_or_default(),
            answered: Answered::Nothing,
        };
        let not_before = self.state.lock().not_before;
        if let Some(not_before) = not_before {
            tokio::time::sleep_until(not_before).await;
        }
        slot
    }

    /// Writes that may be under way at the same time, without those that each controller always may have.
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit.whole()
    }

    fn end(&self, answered: Answered, floor: Option<&Floor>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let in_flight = state.permits.saturating_sub(self.free.available_permits());
        match answered {
            Answered::In(sort, latency) => state.limit.answered(sort, latency, in_flight, now),
            Answered::Overloaded(patience) => {
                state.limit.cut(2.0 / 3.0, now);
                let not_before = patience.map(|patience| now + patience.min(LONGEST_PATIENCE));
                state.not_before = state.not_before.max(not_before);
            }
            Answered::Nothing => {}
        }
        if let Some(floor) = floor {
            floor.0.add_permits(1);
            return;
        }
        let wanted = state.limit.whole();
        if state.permits > wanted {
            // This permit is not given back.
            state.permits -= 1;
        } else {
            self.free.add_permits(1 + wanted - state.permits);
            state.permits = wanted;
        }
    }
}

impl Slot<'_> {
    /// Says how the write ended.
    pub(super) fn end(mut self, answered: Answered) {
        self.answered = answered;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let answered = std::mem::replace(&mut self.answered, Answered::Nothing);
        self.pace.end(answered, self.floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    const QUICK: Duration = Duration::from_millis(5);

    fn pods(took: Duration) -> Answered {
        Answered::In(("create", "pods".to_owned()), took)
    }

    fn statuses(took: Duration) -> Answered {
        Answered::In(("patch", "clonesets/status".to_owned()), took)
    }

    /// Opens as many slots as there are.
    fn fill<'a>(pace: &'a Pace, floor: &'a Floor) -> Vec<Slot<'a>> {
        // Without the budget that tokio gives to a task for one go.
        let begin = || tokio::task::unconstrained(pace.begin(floor)).now_or_never();
        std::iter::from_fn(begin).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn given_good_answers_under_load_then_more_writes_are_let_through() {
        let (pace, floor) = (Pace::new(), Floor::new());
        assert_eq!(fill(&pace, &floor).len(), FLOOR + 64);
        for _ in 0..40 {
            for slot in fill(&pace, &floor) {
                slot.end(pods(QUICK));
            }
        }
        assert!(pace.limit() > 80, "{}", pace.limit());
        assert_eq!(fill(&pace, &floor).len(), FLOOR + pace.limit());
    }

    #[tokio::test(start_paused = true)]
    async fn given_good_answers_without_load_then_the_limit_stays() {
        let (pace, floor) = (Pace::new(), Floor::new());
        for _ in 0..1000 {
            pace.begin(&floor).await.end(pods(QUICK));
        }
        assert_eq!(pace.limit(), 64);
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_storm_of_pushback_then_each_second_a_third_fewer_but_every_controller_keeps_some() {
        let (pace, floor) = (Pace::new(), Floor::new());
        for limit in [42, 28, 18, 12, 8, 5, 3, 2, 2] {
            tokio::time::advance(BETWEEN_CUTS).await;
            for slot in fill(&pace, &floor) {
                slot.end(Answered::Overloaded(None));
            }
            assert_eq!(pace.limit(), limit);
            assert_eq!(fill(&pace, &floor).len(), FLOOR + limit);
        }
        let _all = fill(&pace, &floor);
        assert_eq!(fill(&pace, &Floor::new()).len(), FLOOR, "of another controller");
    }

    #[tokio::test(start_paused = true)]
    async fn given_answers_that_all_become_slow_then_fewer_writes_are_let_through() {
        let (pace, floor) = (Pace::new(), Floor::new());
        for _ in 0..10 {
            pace.begin(&floor).await.end(pods(QUICK));
            pace.begin(&floor).await.end(statuses(QUICK));
        }
        for _ in 0..30 {
            tokio::time::advance(BETWEEN_CUTS).await;
            pace.begin(&floor).await.end(pods(Duration::from_secs(3)));
            pace.begin(&floor).await.end(statuses(Duration::from_secs(3)));
        }
        assert!(pace.limit() < 10, "{}", pace.limit());
    }

    #[tokio::test(start_paused = true)]
    async fn given_one_slow_webhook_then_writes_it_has_nothing_to_do_with_go_on_as_before() {
        let (pace, slow, quick) = (Pace::new(), Floor::new(), Floor::new());
        for _ in 0..10 {
            pace.begin(&slow).await.end(pods(QUICK));
        }
        for _ in 0..60 {
            // One controller has all its Pods under way, and each takes as long as may be.
            let waiting = fill(&pace, &slow);
            tokio::time::advance(BETWEEN_CUTS).await;
            let others: Vec<_> = fill(&pace, &quick);
            assert_eq!(others.len(), FLOOR, "nothing else is left, and this always");
            for slot in others {
                slot.end(statuses(QUICK));
            }
            for slot in waiting {
                slot.end(pods(Duration::from_secs(30)));
            }
            assert!(pace.limit() >= 64, "{}", pace.limit());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn given_the_server_asks_for_patience_then_the_next_write_waits() {
        let (pace, floor) = (Pace::new(), Floor::new());
        let begin = Instant::now();
        let patience = Answered::Overloaded(Some(Duration::from_secs(4)));
        pace.begin(&floor).await.end(patience);
        drop(pace.begin(&floor).await);
        assert_eq!(begin.elapsed(), Duration::from_secs(4));
        let patience = Answered::Overloaded(Some(Duration::from_secs(999)));
        pace.begin(&floor).await.end(patience);
        drop(pace.begin(&floor).await);
        assert_eq!(
            begin.elapsed(),
            Duration::from_secs(14),
            "not longer than it is reasonable"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_caller_that_gives_up_then_its_place_is_free_again() {
        let (pace, floor) = (Pace::new(), Floor::new());
        drop(fill(&pace, &floor));
        assert_eq!(fill(&pace, &floor).len(), FLOOR + 64);
    }
}
