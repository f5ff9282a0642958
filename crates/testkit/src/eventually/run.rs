//! A test with its own runtime, deadline and log.

use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt;

use super::log::Log;

/// How long a test that is over its deadline may still clean up.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// Runs one test. It fails when it panics or when the deadline passes, and then shows everything that was logged inside.
///
/// Call it from a plain `#[test]`; the runtime has several threads, so that fixtures can clean up when they are dropped. A test that blocks its
/// thread for ever is ended too.
///
/// ```no_run
/// # use std::time::Duration;
/// #[test]
/// fn pods_become_ready() {
///     kruise_testkit::eventually::run_test(Duration::from_secs(60), async { /* … */ });
/// }
/// ```
#[track_caller]
pub fn run_test(deadline: Duration, test: impl Future<Output = ()> + Send + 'static) {
    run(deadline, CLEAN_UP, test);
}

fn run(deadline: Duration, clean_up: Duration, test: impl Future<Output = ()> + Send + 'static) {
    let log = Log::default();
    let dispatch = log.dispatch();
    let here = tracing::dispatcher::set_default(&dispatch);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || {
            // Ends with the thread; there is nowhere else to keep it.
            std::mem::forget(tracing::dispatcher::set_default(&dispatch));
        })
        .build()
        .expect("a runtime for the test");
    let (sender, receiver) = mpsc::channel();
    let task = runtime.spawn(async move {
        let outcome = std::panic::AssertUnwindSafe(test).catch_unwind().await;
        // Nobody listens any more when the deadline has passed.
        let _ = sender.send(outcome);
    });
    let outcome = receiver.recv_timeout(deadline);
    if outcome.is_err() {
        // Fixtures clean up while the aborted test is dropped; the channel closes when that is done.
        task.abort();
        let _ = receiver.recv_timeout(clean_up);
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    drop(here);
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => {
            show(&log);
            std::panic::resume_unwind(panic);
        }
        Err(_) => {
            show(&log);
            panic!("the test did not end within its deadline of {deadline:?}; its log is above");
        }
    }
}

fn show(log: &Log) {
    let text = log.text();
    eprintln!("---- log of the test ----\n{text}---- end of the log ----");
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;

    fn message(panic: &(dyn Any + Send)) -> String {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap()
    }

    fn failure_of(deadline: Duration, test: impl Future<Output = ()> + Send + 'static) -> String {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_test(deadline, test)));
        message(&*outcome.unwrap_err())
    }

    #[test]
    fn a_good_test_passes() {
        run_test(Duration::from_secs(5), async { tokio::task::yield_now().await });
    }

    #[test]
    fn a_panic_keeps_its_message() {
        assert_eq!(
            failure_of(Duration::from_secs(5), async { panic!("as expected") }),
            "as expected"
        );
    }

    #[test]
    fn a_test_that_waits_for_ever_ends_at_its_deadline() {
        let failure = failure_of(Duration::from_millis(50), std::future::pending());
        assert!(failure.contains("did not end within its deadline of 50ms"), "{failure}");
    }

    #[test]
    fn a_test_that_blocks_its_thread_ends_at_its_deadline() {
        let (release, blocked) = mpsc::channel::<()>();
        let outcome = std::panic::catch_unwind(move || {
            let short = Duration::from_millis(50);
            run(short, short, async move { _ = blocked.recv() });
        });
        assert!(message(&*outcome.unwrap_err()).contains("did not end within its deadline"));
        drop(release);
    }

    #[test]
    fn fixtures_clean_up_after_a_panic_and_after_a_missed_deadline() {
        struct Fixture(mpsc::Sender<&'static str>);
        impl Drop for Fixture {
            fn drop(&mut self) {
                let sender = self.0.clone();
                crate::blocking::finish_before_drop(async move {
                    tokio::task::yield_now().await;
                    let _ = sender.send("cleaned");
                });
            }
        }
        let (sender, receiver) = mpsc::channel();
        let fixture = Fixture(sender.clone());
        failure_of(Duration::from_secs(5), async move {
            let _fixture = fixture;
            panic!("as expected");
        });
        assert_eq!(receiver.try_recv(), Ok("cleaned"));
        let fixture = Fixture(sender);
        failure_of(Duration::from_millis(50), async move {
            let _fixture = fixture;
            std::future::pending::<()>().await;
        });
        assert_eq!(receiver.try_recv(), Ok("cleaned"));
    }

    #[test]
    fn what_any_thread_of_the_test_logs_is_collected() {
        let log = Log::default();
        let dispatch = log.dispatch();
        tracing::dispatcher::with_default(&dispatch, || tracing::info!("a line for the reader"));
        assert!(log.text().contains("a line for the reader"));
    }
}
