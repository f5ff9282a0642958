use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use prometheus::Registry;

use super::retry::{RETRY_DENIED, RETRY_PERMANENT};
use super::*;
use crate::cache::Change;
use crate::expectations::ExpectationMetrics;
use crate::queue::{Limits, QueueMetrics};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    queue: Queue<ObjectKey>,
    registry: Registry,
    stop: CancellationToken,
    /// When and what was reconciled.
    calls: Arc<Mutex<Vec<(u128, String)>>>,
}

impl Fixture {
    fn new() -> Self {
        let registry = Registry::new();
        let metrics = QueueMetrics::new(&registry).expect("metrics");
        Self {
            queue: Queue::new("test", Limits::default(), &metrics),
            registry,
            stop: CancellationToken::new(),
            calls: Arc::default(),
        }
    }

    fn controller(&self, workers: usize) -> Controller {
        let metrics = ControllerMetrics::new(&self.registry).expect("metrics");
        Controller::new("test", self.queue.clone(), workers, &metrics)
    }

    /// Runs for `time` a controller whose n-th reconcile ends as `act` says.
    async fn run_for(&self, time: Duration, act: impl Fn(usize) -> Result<Outcome, Error> + Send + Sync + 'static) {
        let calls = self.calls.clone();
        let act = Arc::new(act);
        let begin = Instant::now();
        let run = self.controller(3).run(self.stop.clone(), move |key| {
            let (calls, act) = (calls.clone(), act.clone());
            async move {
                let number = {
                    let mut calls = calls.lock();
                    calls.push((begin.elapsed().as_millis(), key.to_string()));
                    calls.len()
                };
                act(number)
            }
        });
        let stop = self.stop.clone();
        tokio::join!(run, async move {
            tokio::time::sleep(time).await;
            stop.cancel();
        });
    }

    fn times(&self) -> Vec<u128> {
        self.calls.lock().iter().map(|(time, _)| *time).collect()
    }

    fn assert_metric(&self, line: &str) {
        let text = crate::metrics::render(&self.registry).expect("text");
        assert!(text.contains(&format!("{line}\n")), "{line} is missing in:\n{text}");
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

/// When `a` and `b` are reconciled if a write on behalf of `a` becomes visible after this time, and that wakes nobody.
async fn after_own_writes(visible: Duration) -> Vec<(u128, String)> {
    let fixture = Fixture::new();
    let metrics = ExpectationMetrics::new(&fixture.registry).expect("metrics");
    let writes = Arc::new(Expectations::new("test", 10 * SECOND, &metrics));
    let store: Store<ConfigMap> = Store::new(crate::cache::Kind::of());
    let written = crate::writer::Written {
        name: "written".to_owned(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    };
    writes.changed(&key("a"), &store, "n", &written);
    for name in ["a", "b"] {
        fixture.queue.add(key(name), Priority::Change);
    }
    let controller = fixture.controller(1).after_own_writes(writes);
    let (calls, begin, stop) = (fixture.calls.clone(), Instant::now(), fixture.stop.clone());
    let run = controller.run(fixture.stop.clone(), move |key| {
        calls.lock().push((begin.elapsed().as_millis(), key.to_string()));
        async { Ok(Outcome::done()) }
    });
    tokio::join!(run, async move {
        tokio::time::sleep(visible).await;
        let mut map = ConfigMap::default();
        map.metadata.resource_version = Some("7".to_owned());
        store.feed(Change::Applied(map));
        tokio::time::sleep(20 * SECOND).await;
        stop.cancel();
    });
    let calls = fixture.calls.lock().clone();
    calls.into_iter().map(|(time, key)| (time / 1000, key)).collect()
}

#[tokio::test(start_paused = true)]
async fn given_own_writes_that_are_not_visible_then_the_key_waits_and_others_do_not() {
    let calls = after_own_writes(20 * SECOND).await;
    // It is waited for, even longer than the patience with the cache: who creates again what was only not seen has it twice.
    assert_eq!(calls, [(0, "n/b".to_owned()), (20, "n/a".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn given_own_writes_that_become_visible_with_a_change_that_wakes_nobody_then_the_key_goes_on_soon() {
    let calls = after_own_writes(SECOND * 7 / 2).await;
    assert_eq!(calls, [(0, "n/b".to_owned()), (4, "n/a".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn given_success_then_the_key_rests_and_a_wish_to_be_woken_is_granted() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    fixture
        .run_for(100 * SECOND, |number| {
            Ok(if number < 3 {
                Outcome::wake_after(10 * SECOND)
            } else {
                Outcome::done()
            })
        })
        .await;
    assert_eq!(fixture.times(), [0, 10_000, 20_000]);
    fixture.assert_metric("controller_runtime_reconcile_total{controller=\"test\",result=\"requeue_after\"} 2");
    fixture.assert_metric("controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 1");
    fixture.assert_metric("controller_runtime_max_concurrent_reconciles{controller=\"test\"} 3");
    fixture.assert_metric("controller_runtime_active_workers{controller=\"test\"} 0");
}

#[tokio::test(start_paused = true)]
async fn given_failures_then_the_pauses_double_and_a_success_ends_them() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    fixture
        .run_for(100 * SECOND, |number| match number {
            1..=4 | 6 => Err(Error::new(Class::Transient, "no luck")),
            5 => Ok(Outcome::wake_after(SECOND)),
            _ => Ok(Outcome::done()),
        })
        .await;
    assert_eq!(fixture.times(), [0, 5, 15, 35, 75, 1075, 1080]);
    fixture.assert_metric("controller_runtime_reconcile_errors_total{controller=\"test\"} 5");
    fixture.assert_metric("workqueue_retries_total{name=\"test\"} 5");
}

#[tokio::test(start_paused = true)]
async fn given_a_failure_in_part_then_the_back_off_and_the_timers_both_count() {
    // The class of the error, when the reconcile wants to look again, and when it does.
    for (class, wake_after, second) in [
        (Class::Permanent, Some(10 * SECOND), 10_000),
        (Class::Permanent, None, RETRY_PERMANENT.as_millis()),
        (Class::Permanent, Some(Duration::ZERO), 1000),
        (Class::Transient, Some(10 * SECOND), 5),
        (Class::Transient, Some(Duration::ZERO), 5),
    ] {
        let fixture = Fixture::new();
        fixture.queue.add(key("a"), Priority::Change);
        let act = move |number| match number {
            1 => Ok(Outcome::failed(Error::new(class, "one of many"), wake_after)),
            _ => Ok(Outcome::done()),
        };
        fixture.run_for(RETRY_PERMANENT * 2, act).await;
        assert_eq!(fixture.times()[..2], [0, second], "{class:?} {wake_after:?}");
        fixture.assert_metric("controller_runtime_reconcile_errors_total{controller=\"test\"} 1");
    }
}

#[tokio::test(start_paused = true)]
async fn given_refusals_then_it_is_tried_again_every_few_seconds_however_long_it_takes() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    fixture
        .run_for(1000 * SECOND, |_| Err(Error::new(Class::Denied, "exceeded quota")))
        .await;
    let times = fixture.times();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(longest, Some(RETRY_DENIED.as_millis()));
    // And what comes then does not pay for it.
    let pause = fixture.queue.add_limited(key("a"), Priority::Change);
    assert!(pause < 2 * RETRY_DENIED, "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn given_a_class_then_it_decides_when_the_key_comes_back_and_what_is_counted() {
    for (class, second, result, errors, terminal) in [
        (Class::Transient, 5, "error", 1, 0),
        (Class::Denied, 5, "error", 1, 0),
        (Class::Conflict, 5, "requeue", 0, 0),
        (Class::Gone, 5, "requeue", 0, 0),
        (Class::Permanent, RETRY_PERMANENT.as_millis(), "error", 1, 1),
    ] {
        let fixture = Fixture::new();
        fixture.queue.add(key("a"), Priority::Change);
        fixture
            .run_for(RETRY_PERMANENT * 2, move |number| match number {
                1 => Err(Error::new(class, "as expected")),
                _ => Ok(Outcome::done()),
            })
            .await;
        assert_eq!(fixture.times(), [0, second], "{class:?}");
        fixture.assert_metric(&format!(
            "controller_runtime_reconcile_total{{controller=\"test\",result=\"{result}\"}} 1"
        ));
        fixture.assert_metric(&format!(
            "controller_runtime_reconcile_errors_total{{controller=\"test\"}} {errors}"
        ));
        fixture.assert_metric(&format!(
            "controller_runtime_terminal_reconcile_errors_total{{controller=\"test\"}} {terminal}"
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_panic_then_it_is_counted_backed_off_and_the_others_go_on() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    fixture.queue.add(key("b"), Priority::Change);
    fixture
        .run_for(SECOND, |number| {
            assert!(number != 1 && number != 3, "on purpose");
            Ok(Outcome::done())
        })
        .await;
    let calls: Vec<_> = fixture
        .calls
        .lock()
        .iter()
        .map(|(time, key)| format!("{time} {key}"))
        .collect();
    assert_eq!(calls, ["0 n/a", "0 n/b", "5 n/a", "15 n/a"]);
    fixture.assert_metric("controller_runtime_reconcile_panics_total{controller=\"test\"} 2");
    fixture.assert_metric("controller_runtime_reconcile_errors_total{controller=\"test\"} 2");
}

#[tokio::test(start_paused = true)]
async fn given_a_reconcile_that_hangs_then_its_deadline_ends_it() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    let calls = Arc::new(AtomicUsize::new(0));
    let stop = fixture.stop.clone();
    fixture
        .controller(1)
        .deadline(30 * SECOND)
        .run(stop.clone(), move |_| {
            let (calls, stop) = (calls.clone(), stop.clone());
            async move {
                if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                    std::future::pending::<()>().await;
                }
                stop.cancel();
                Ok(Outcome::done())
            }
        })
        .await;
    fixture.assert_metric("kruise_reconcile_timeouts_total{controller=\"test\"} 1");
}

#[tokio::test(start_paused = true)]
async fn given_many_keys_then_workers_bound_the_tasks_and_no_key_is_in_flight_twice() {
    let fixture = Fixture::new();
    for number in 0..20 {
        fixture.queue.add(key(&number.to_string()), Priority::Change);
    }
    let in_flight: Arc<Mutex<Vec<String>>> = Arc::default();
    let most = Arc::new(AtomicUsize::new(0));
    let (queue, seen_most, stop) = (fixture.queue.clone(), most.clone(), fixture.stop.clone());
    let run = fixture.controller(4).run(fixture.stop.clone(), move |key| {
        let (in_flight, most, queue) = (in_flight.clone(), most.clone(), queue.clone());
        async move {
            let name = key.to_string();
            {
                let mut in_flight = in_flight.lock();
                assert!(!in_flight.contains(&name), "{name} is in flight twice");
                in_flight.push(name.clone());
                most.fetch_max(in_flight.len(), Ordering::Relaxed);
            }
            queue.add(key, Priority::Change);
            tokio::time::sleep(SECOND).await;
            in_flight.lock().retain(|each| *each != name);
            Ok(Outcome::done())
        }
    });
    tokio::join!(run, async move {
        tokio::time::sleep(60 * SECOND).await;
        stop.cancel();
    });
    assert_eq!(seen_most.load(Ordering::Relaxed), 4);
    fixture.assert_metric("controller_runtime_reconcile_panics_total{controller=\"test\"} 0");
}

#[tokio::test(start_paused = true)]
async fn given_a_stop_then_what_is_in_flight_ends_and_nothing_new_begins() {
    let fixture = Fixture::new();
    fixture.queue.add(key("a"), Priority::Change);
    fixture.queue.add(key("b"), Priority::Change);
    let done = Arc::new(AtomicUsize::new(0));
    let (count, stop) = (done.clone(), fixture.stop.clone());
    let run = fixture.controller(1).run(fixture.stop.clone(), move |_| {
        let done = done.clone();
        async move {
            tokio::time::sleep(5 * SECOND).await;
            done.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::done())
        }
    });
    tokio::join!(run, async move {
        tokio::time::sleep(SECOND).await;
        stop.cancel();
    });
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
