//! The page from stores that the tests feed.

use super::*;
use kruise_core::state_metrics::catalogue;
use kruise_runtime::cache::{Change, Kind};
use serde_json::json;

fn metrics(kinds: Vec<Box<dyn KindPage>>) -> StateMetrics {
    StateMetrics {
        kinds,
        leadership: Leadership::always(),
        length: AtomicUsize::default(),
        reported: Mutex::default(),
        unreadable: IntCounterVec::new(Opts::new("unreadable", "Values."), &["family"]).expect("a counter"),
        duration: HistogramVec::new(HistogramOpts::new("duration", "Pages."), &["handler", "method"])
            .expect("a histogram"),
    }
}

fn watched(store: &Store<CloneSet>) -> Box<dyn KindPage> {
    Box::new(Watching {
        store: store.clone(),
        exposition: Exposition::new(&Arc::default()),
    })
}

fn set(name: &str, budget: &str) -> CloneSet {
    let spec = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxUnavailable": budget}}});
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})).expect("a set")
}

#[test]
fn given_a_list_that_is_not_complete_then_there_is_no_page_and_it_says_what_is_missing() {
    let store = Store::<CloneSet>::new(Kind::of());
    let metrics = metrics(vec![watched(&store)]);
    store.feed(Change::ListBegins);
    store.feed(Change::Listed(set("web", "1")));
    let reason = metrics.page().expect_err("half of a list");
    assert!(reason.contains("clonesets"), "{reason}");
    store.feed(Change::ListEnds);
    let page = metrics.page().expect("a page");
    assert!(
        page.contains("kruise_cloneset_spec_replicas{namespace=\"shop\",cloneset=\"web\"} 2\n"),
        "{page}"
    );
}

#[test]
fn given_an_unreadable_value_then_it_is_counted_at_every_page_and_forgotten_when_it_is_mended() {
    let store = Store::<CloneSet>::new(Kind::of());
    let metrics = metrics(vec![watched(&store)]);
    store.feed(Change::ListBegins);
    store.feed(Change::Listed(set("web", "many")));
    store.feed(Change::ListEnds);
    let counted = || {
        let family = "kruise_cloneset_spec_strategy_rollingupdate_max_unavailable";
        metrics.unreadable.with_label_values(&[family]).get()
    };
    for page in 1..=2 {
        metrics.page().expect("a page");
        assert_eq!((counted(), metrics.reported.lock().len()), (page, 1));
    }
    store.feed(Change::Applied(set("web", "1")));
    metrics.page().expect("a page");
    assert_eq!((counted(), metrics.reported.lock().len()), (2, 0));
}

#[test]
fn given_a_replica_that_does_not_lead_then_it_announces_families_without_objects() {
    let store = Store::<CloneSet>::new(Kind::of());
    store.feed(Change::ListBegins);
    store.feed(Change::Listed(set("web", "1")));
    store.feed(Change::ListEnds);
    let mut page = String::new();
    watched(&store).write(false, &mut page);
    assert!(
        page.contains("# TYPE kruise_cloneset_spec_replicas gauge\n") && !page.contains("web"),
        "{page}"
    );
}

#[test]
fn given_the_catalogue_then_every_kind_of_it_is_on_the_page() {
    assert_eq!(KINDS.len(), catalogue().len());
}
