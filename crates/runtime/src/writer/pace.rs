//! How many writes may be under way at the same time.
//!
//! As long as the server answers well, one more write is let through with each round of answers. When it pushes back (429, a
//! timeout) a third fewer, when it becomes slow a tenth fewer, at most once a second. When it asks for patience, it gets it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

const START: f64 = 64.0;
const FEWEST: f64 = 2.0;
const MOST: f64 = 256.0;
/// Cuts are at least this far apart: answers that were under way already say nothing new.
const BETWEEN_CUTS: Duration = Duration::from_secs(1);
/// Answers faster than this are never called slow.
const FAST_ENOUGH: Duration = Duration::from_millis(500);
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);

/// How a write ended, as far as the pace is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// The server answered, whatever it said.
    In(Duration),
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
    /// What the server needs when it has nothing else to do.
    fastest: Option<f64>,
    /// What it needs of late.
    recent: f64,
}

impl Limit {
    fn new() -> Self {
        Self {
            writes: START,
            last_cut: None,
            fastest: None,
            recent: 0.0,
        }
    }

    fn whole(&self) -> usize {
        // Between 2 and 256.
        #[allow(clippy::cast_sign_loss)]
        let whole = self.writes as usize;
        whole
    }

    fn answered(&mut self, latency: Duration, in_flight: usize, now: Instant) {
        let latency = latency.as_secs_f64();
        let fastest = self.fastest.map_or(latency, |fastest| (fastest * 1.01).min(latency));
        self.fastest = Some(fastest);
        self.recent = if self.recent == 0.0 {
            latency
        } else {
            0.9 * self.recent + 0.1 * latency
        };
        if self.recent > 4.0 * fastest && self.recent > FAST_ENOUGH.as_secs_f64() {
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

/// One write under way.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    pace: &'a Pace,
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
    pub(super) async fn begin(&self) -> Slot<'_> {
        // Never closed.
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
        let slot = Slot {
            pace: self,
            answered: Answered::Nothing,
        };
        let not_before = self.state.lock().not_before;
        if let Some(not_before) = not_before {
            tokio::time::sleep_until(not_before).await;
        }
        slot
    }

    /// Writes that may be under way at the same time.
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit.whole()
    }

    fn end(&self, answered: Answered) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let in_flight = state.permits.saturating_sub(self.free.available_permits());
        match answered {
            Answered::In(latency) => state.limit.answered(latency, in_flight, now),
            Answered::Overloaded(patience) => {
                state.limit.cut(2.0 / 3.0, now);
                let not_before = patience.map(|patience| now + patience.min(LONGEST_PATIENCE));
                state.not_before = state.not_before.max(not_before);
            }
            Answered::Nothing => {}
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
        self.pace.end(self.answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    const QUICK: Duration = Duration::from_millis(5);

    /// Opens as many slots as there are.
    fn fill(pace: &Pace) -> Vec<Slot<'_>> {
        // Without the budget that tokio gives to a task for one go.
        let begin = || tokio::task::unconstrained(pace.begin()).now_or_never();
        std::iter::from_fn(begin).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn given_good_answers_under_load_then_more_writes_are_let_through() {
        let pace = Pace::new();
        assert_eq!(fill(&pace).len(), 64);
        for _ in 0..40 {
            for slot in fill(&pace) {
                slot.end(Answered::In(QUICK));
            }
        }
        assert!(pace.limit() > 80, "{}", pace.limit());
        assert_eq!(fill(&pace).len(), pace.limit());
    }

    #[tokio::test(start_paused = true)]
    async fn given_good_answers_without_load_then_the_limit_stays() {
        let pace = Pace::new();
        for _ in 0..1000 {
            pace.begin().await.end(Answered::In(QUICK));
        }
        assert_eq!(pace.limit(), 64);
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_storm_of_pushback_then_each_second_a_third_fewer_but_never_none() {
        let pace = Pace::new();
        for limit in [42, 28, 18, 12, 8, 5, 3, 2, 2] {
            tokio::time::advance(BETWEEN_CUTS).await;
            for slot in fill(&pace) {
                slot.end(Answered::Overloaded(None));
            }
            assert_eq!(pace.limit(), limit);
            assert_eq!(fill(&pace).len(), limit);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn given_answers_that_become_slow_then_fewer_writes_are_let_through() {
        let pace = Pace::new();
        for _ in 0..10 {
            pace.begin().await.end(Answered::In(QUICK));
        }
        for _ in 0..30 {
            tokio::time::advance(BETWEEN_CUTS).await;
            pace.begin().await.end(Answered::In(Duration::from_secs(3)));
        }
        assert!(pace.limit() < 10, "{}", pace.limit());
    }

    #[tokio::test(start_paused = true)]
    async fn given_the_server_asks_for_patience_then_the_next_write_waits() {
        let pace = Pace::new();
        let begin = Instant::now();
        pace.begin()
            .await
            .end(Answered::Overloaded(Some(Duration::from_secs(4))));
        drop(pace.begin().await);
        assert_eq!(begin.elapsed(), Duration::from_secs(4));
        pace.begin()
            .await
            .end(Answered::Overloaded(Some(Duration::from_secs(999))));
        drop(pace.begin().await);
        assert_eq!(
            begin.elapsed(),
            Duration::from_secs(14),
            "not longer than it is reasonable"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn given_a_caller_that_gives_up_then_its_place_is_free_again() {
        let pace = Pace::new();
        drop(fill(&pace));
        assert_eq!(fill(&pace).len(), 64);
    }
}
