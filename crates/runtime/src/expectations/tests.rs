use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;

use super::*;
use crate::cache::{Change, Kind, Named};

const TIMEOUT: Duration = Duration::from_mins(5);

struct Fixture {
    store: Store<ConfigMap>,
    expectations: Expectations,
    registry: Registry,
    key: ObjectKey,
}

fn fixture() -> Fixture {
    let store = Store::new(Kind::<ConfigMap>::of());
    let registry = Registry::new();
    let metrics = ExpectationMetrics::new(&registry).expect("metrics");
    store.feed(Change::ListBegins);
    store.feed(Change::ListEnds);
    Fixture {
        store,
        expectations: Expectations::new("test", TIMEOUT, &metrics),
        registry,
        key: ObjectKey::new("n", "owner"),
    }
}

fn map(name: &str, uid: &str, version: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("n".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

impl Fixture {
    fn wrote(&self, name: &str, uid: &str, version: &str) {
        let written = Written {
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: version.to_owned(),
        };
        self.expectations.changed(&self.key, &self.store, "n", &written);
    }

    fn deleted(&self, name: &str, uid: &str) {
        self.expectations
            .deleted(&self.key, &self.store, &ObjectKey::new("n", name), uid);
    }

    fn all_visible(&self) -> bool {
        self.expectations.check(&self.key) == Visible::All
    }
}

fn gone(name: &str) -> Named<'_> {
    Named { namespace: "n", name }
}

#[tokio::test(start_paused = true)]
async fn given_a_write_then_its_own_version_or_a_later_one_satisfies_and_an_older_one_does_not() {
    for (seen, satisfied) in [(9, false), (10, true), (11, true)] {
        let fixture = fixture();
        fixture.wrote("a", "u", "10");
        assert!(!fixture.all_visible());
        fixture.store.feed(Change::Applied(map("a", "u", seen)));
        assert_eq!(fixture.all_visible(), satisfied, "version {seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_write_that_is_visible_before_it_is_remembered_then_nothing_waits() {
    let fixture = fixture();
    fixture.store.feed(Change::Applied(map("a", "u", 10)));
    fixture.wrote("a", "u", "10");
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_an_object_that_came_and_went_then_the_position_satisfies() {
    let fixture = fixture();
    fixture.wrote("a", "u", "10");
    fixture.store.feed(Change::Deleted(gone("a"), 12));
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_another_object_that_was_written_later_then_the_write_is_covered() {
    let fixture = fixture();
    fixture.wrote("a", "u", "10");
    fixture.store.feed(Change::Applied(map("b", "other", 15)));
    assert!(fixture.all_visible(), "a watch tells changes in their order");
}

#[tokio::test(start_paused = true)]
async fn given_lists_then_only_one_that_was_begun_after_the_write_satisfies() {
    let fixture = fixture();
    fixture.store.feed(Change::ListBegins);
    fixture.wrote("a", "u", "10");
    fixture.store.feed(Change::Listed(map("b", "v", 9)));
    fixture.store.feed(Change::ListEnds);
    assert!(!fixture.all_visible(), "this list may have been made before the write");
    fixture.store.feed(Change::ListBegins);
    assert!(!fixture.all_visible());
    fixture.store.feed(Change::ListEnds);
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_a_newer_object_in_a_list_that_is_under_way_then_the_position_does_not_lie() {
    let fixture = fixture();
    fixture.wrote("z", "u", "10");
    fixture.store.feed(Change::ListBegins);
    fixture.store.feed(Change::Listed(map("a", "v", 99)));
    assert!(!fixture.all_visible(), "a list is in order of names, not of versions");
}

#[tokio::test(start_paused = true)]
async fn given_a_deletion_then_gone_deleting_or_replaced_satisfies() {
    let deleting = |mut object: ConfigMap| {
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        object
    };
    for (change, satisfied) in [
        (Change::Deleted(gone("a"), 12), true),
        (Change::Applied(deleting(map("a", "u", 12))), true),
        (Change::Applied(map("a", "another", 12)), true),
        (Change::Applied(map("a", "u", 12)), false),
        (Change::Applied(map("b", "v", 12)), false),
    ] {
        let fixture = fixture();
        fixture.store.feed(Change::Applied(map("a", "u", 5)));
        fixture.deleted("a", "u");
        assert!(!fixture.all_visible());
        let text = format!("{change:?}");
        fixture.store.feed(change);
        assert_eq!(fixture.all_visible(), satisfied, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn given_several_writes_then_all_have_to_be_visible_and_the_oldest_is_named() {
    let fixture = fixture();
    fixture.wrote("a", "u", "10");
    tokio::time::advance(Duration::from_secs(7)).await;
    fixture.wrote("b", "v", "20");
    assert_eq!(
        fixture.expectations.check(&fixture.key),
        Visible::NotYet {
            object: ObjectKey::new("n", "a"),
            count: 2,
            age: Duration::from_secs(7),
            ask_after: ASK_AGAIN,
        }
    );
    assert_eq!(fixture.expectations.check(&ObjectKey::new("n", "other")), Visible::All);
    fixture.store.feed(Change::Applied(map("a", "u", 10)));
    assert!(!fixture.all_visible());
    fixture.store.feed(Change::Applied(map("b", "v", 20)));
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_a_cache_that_stands_still_then_a_create_is_reported_once_and_never_forgotten() {
    let fixture = fixture();
    let written = Written {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version: "10".to_owned(),
    };
    let lost = ObjectKey::new("n", "b");
    fixture
        .expectations
        .created(&fixture.key, &fixture.store, "n", &written);
    fixture.expectations.maybe_created(&fixture.key, &fixture.store, &lost);
    for _ in 0..3 {
        tokio::time::advance(TIMEOUT).await;
        // Nobody answers.
        fixture.store.feed(Change::ListBegins);
        let Visible::NotYet { count, ask_after, .. } = fixture.expectations.check(&fixture.key) else {
            panic!("nothing has been heard since");
        };
        assert_eq!((count, ask_after), (2, ASK_AGAIN));
    }
    let text = crate::metrics::render(&fixture.registry).expect("text");
    assert!(
        text.contains("kruise_expectations_overdue_total{controller=\"test\"} 1\n"),
        "{text}"
    );
    // A word of the server, also one that brings nothing new, is enough to know that the lost one did not happen, and not enough for the other.
    let version = fixture.store.position().version;
    fixture.store.feed(Change::Reached(version));
    assert!(matches!(
        fixture.expectations.check(&fixture.key),
        Visible::NotYet { count: 2, .. }
    ));
    tokio::time::advance(A_MOMENT).await;
    assert!(matches!(
        fixture.expectations.check(&fixture.key),
        Visible::NotYet { count: 1, .. }
    ));
    fixture.store.feed(Change::Reached(10));
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_a_deletion_that_never_shows_then_it_is_dropped_once_the_cache_has_moved() {
    let fixture = fixture();
    fixture.store.feed(Change::Applied(map("a", "u", 5)));
    fixture.deleted("a", "u");
    tokio::time::advance(TIMEOUT).await;
    assert!(!fixture.all_visible());
    fixture.store.feed(Change::Reached(99));
    assert!(!fixture.all_visible());
    tokio::time::advance(A_MOMENT).await;
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_the_gate_to_go_on_then_what_never_shows_is_reported_once_and_dropped() {
    let mut fixture = fixture();
    fixture.expectations = fixture.expectations.forcing(true);
    fixture.wrote("a", "u", "10");
    tokio::time::advance(TIMEOUT).await;
    assert!(fixture.all_visible());
    assert!(fixture.all_visible());
    let text = crate::metrics::render(&fixture.registry).expect("text");
    assert!(
        text.contains("kruise_expectations_overdue_total{controller=\"test\"} 1\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn given_creations_that_stay_invisible_then_they_are_told_as_leaks_of_their_key() {
    let fixture = fixture();
    let leaks = IntCounterVec::new(Opts::new("leaks", "Leaks."), &["namespace", "name"]).expect("a counter");
    let expectations = fixture.expectations.telling_leaks(&leaks).forcing(true);
    let written = Written {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version: "10".to_owned(),
    };
    expectations.created(&fixture.key, &fixture.store, "n", &written);
    expectations.changed(&fixture.key, &fixture.store, "n", &written);
    tokio::time::advance(TIMEOUT).await;
    assert_eq!(expectations.check(&fixture.key), Visible::All);
    assert_eq!(leaks.with_label_values(&["n", "owner"]).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn given_a_version_that_is_no_number_then_the_object_itself_satisfies() {
    let fixture = fixture();
    fixture.wrote("a", "u", "opaque");
    assert!(!fixture.all_visible());
    fixture.store.feed(Change::Applied(map("a", "u", 1)));
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_a_key_that_is_no_more_then_its_writes_are_forgotten() {
    let fixture = fixture();
    fixture.wrote("a", "u", "10");
    fixture.expectations.forget(&fixture.key);
    assert!(fixture.all_visible());
}

#[tokio::test(start_paused = true)]
async fn given_a_write_without_an_answer_then_it_is_waited_for_but_not_for_long() {
    let object = ObjectKey::new("n", "a");
    for shows in [true, false] {
        let fixture = fixture();
        fixture
            .expectations
            .maybe_created(&fixture.key, &fixture.store, &object);
        let Visible::NotYet { ask_after, .. } = fixture.expectations.check(&fixture.key) else {
            panic!("it may be there and is not visible");
        };
        assert_eq!(ask_after, ASK_AGAIN);
        fixture.store.feed(Change::Applied(map("other", "o", 50)));
        assert!(
            !fixture.all_visible(),
            "its version is not known, so only the object itself can tell"
        );
        if shows {
            fixture.store.feed(Change::Applied(map("a", "u", 51)));
        } else {
            tokio::time::advance(UNSURE).await;
        }
        assert!(fixture.all_visible());
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_deletion_without_an_answer_then_it_is_waited_for_but_not_for_long() {
    let object = ObjectKey::new("n", "a");
    for shows in [true, false] {
        let fixture = fixture();
        fixture.store.feed(Change::Applied(map("a", "u", 5)));
        fixture
            .expectations
            .maybe_deleted(&fixture.key, &fixture.store, &object, "u");
        assert!(!fixture.all_visible());
        if shows {
            fixture.store.feed(Change::Deleted(gone("a"), 6));
        } else {
            tokio::time::advance(UNSURE).await;
        }
        assert!(fixture.all_visible());
    }
}
