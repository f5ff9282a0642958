use futures::FutureExt as _;
use prometheus::Registry;

use super::*;
use Priority::Change;

fn queue(registry: &Registry) -> Queue<&'static str> {
    let metrics = QueueMetrics::new(registry).expect("metrics");
    Queue::new("test", Limits::default(), &metrics)
}

#[tokio::test(start_paused = true)]
async fn given_somebody_waits_when_a_key_is_added_then_it_is_handed_out() {
    let queue = queue(&Registry::new());
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|taken| *taken.key()) }
    });
    tokio::task::yield_now().await;
    queue.add("a", Change);
    assert_eq!(waiting.await.expect("no panic"), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn given_a_key_for_later_then_it_is_handed_out_at_its_time() {
    let queue = queue(&Registry::new());
    let begin = Instant::now();
    queue.add_after("late", Change, Duration::from_secs(20));
    queue.add_after("soon", Change, Duration::from_secs(10));
    for (key, seconds) in [("soon", 10), ("late", 20)] {
        let taken = queue.next().await.expect("a key");
        assert_eq!(*taken.key(), key);
        assert_eq!(begin.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn given_an_earlier_time_while_somebody_waits_then_the_wait_is_cut_short() {
    let queue = queue(&Registry::new());
    let begin = Instant::now();
    queue.add_after("late", Change, Duration::from_secs(1000));
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|taken| *taken.key()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", Change, Duration::from_secs(3));
    assert_eq!(waiting.await.expect("no panic"), Some("soon"));
    assert_eq!(begin.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn given_a_shut_down_then_who_waits_goes_home() {
    let queue = queue(&Registry::new());
    queue.add("a", Change);
    let taken = queue.next().await.expect("a key");
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert!(waiting.await.expect("no panic"));
    drop(taken);
    assert!(queue.next().now_or_never().expect("at once").is_none());
}

#[tokio::test(start_paused = true)]
async fn given_work_then_the_published_metrics_tell_about_it() {
    let registry = Registry::new();
    let queue = queue(&registry);
    queue.add("a", Change);
    queue.add("a", Change);
    queue.add("b", Change);
    let taken = queue.next().await.expect("a key");
    tokio::time::advance(Duration::from_secs(4)).await;
    let text = crate::metrics::render(&registry).expect("text");
    for line in [
        "workqueue_depth{name=\"test\"} 1",
        "workqueue_adds_total{name=\"test\"} 2",
        "workqueue_retries_total{name=\"test\"} 0",
        "workqueue_queue_duration_seconds_count{name=\"test\"} 1",
        "workqueue_work_duration_seconds_count{name=\"test\"} 0",
        "workqueue_unfinished_work_seconds{name=\"test\"} 4",
        "workqueue_longest_running_processor_seconds{name=\"test\"} 4",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is missing in:\n{text}");
    }
    drop(taken);
    let text = crate::metrics::render(&registry).expect("text");
    assert!(
        text.contains("workqueue_work_duration_seconds_sum{name=\"test\"} 4\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn given_a_key_that_is_added_while_it_is_worked_on_then_it_counts_once_and_comes_again() {
    let registry = Registry::new();
    let queue = queue(&registry);
    queue.add("a", Change);
    let taken = queue.next().await.expect("a key");
    queue.add("a", Change);
    queue.add("a", Change);
    drop(taken);
    drop(queue.next().await.expect("the key again"));
    let adds = registry
        .gather()
        .into_iter()
        .find(|family| family.name() == "workqueue_adds_total");
    let adds = adds.expect("a metric").get_metric()[0].get_counter().get_value();
    assert!((adds - 2.0).abs() < f64::EPSILON, "{adds}");
}
