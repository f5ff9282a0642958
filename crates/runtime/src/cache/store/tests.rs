use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_api::meta::Meta;
use kube::core::ObjectMeta;

use super::*;
use crate::expectations::View;

fn map(name: &str, version: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("n".to_owned()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn partial(name: &str, version: u64) -> PartialObject {
    let metadata = Meta {
        name: name.into(),
        namespace: "n".into(),
        resource_version: version,
        ..Meta::default()
    };
    PartialObject { metadata }
}

fn unreadable(store: &Store<ConfigMap>) -> Vec<String> {
    let all = store.unreadable_in("n");
    all.iter()
        .map(|partial| format!("{}@{}", partial.metadata.name, partial.metadata.resource_version))
        .collect()
}

fn named(name: &str) -> Named<'_> {
    Named { namespace: "n", name }
}

/// A store that was listed once.
fn listed(names: &[(&str, u64)]) -> Store<ConfigMap> {
    let store = Store::new(Kind::<ConfigMap>::of());
    list(&store, names);
    store
}

fn list(store: &Store<ConfigMap>, names: &[(&str, u64)]) {
    store.feed(Change::ListBegins);
    for (name, version) in names {
        store.feed(Change::Listed(map(name, *version)));
    }
    store.feed(Change::ListEnds);
}

type Recorded = Arc<Mutex<Vec<String>>>;

fn listen(store: &Store<ConfigMap>) -> Recorded {
    let recorded = Recorded::default();
    let write = recorded.clone();
    store.subscribe(move |event| {
        let version = |object: Option<&Arc<ConfigMap>>| {
            object.map_or("-".to_owned(), |object| {
                let meta = &object.metadata;
                format!(
                    "{}@{}",
                    meta.name.as_deref().unwrap_or_default(),
                    meta.resource_version.as_deref().unwrap_or_default()
                )
            })
        };
        let line = format!("{:?} {} {}", event.origin, version(event.old), version(event.new));
        write.lock().push(line);
    });
    recorded
}

fn recorded(recorded: &Recorded) -> Vec<String> {
    std::mem::take(&mut *recorded.lock())
}

#[test]
fn given_a_list_then_its_objects_are_there_and_the_kind_is_synced_only_at_its_end() {
    let store = Store::new(Kind::<ConfigMap>::of());
    store.feed(Change::ListBegins);
    store.feed(Change::Listed(map("a", 3)));
    assert_eq!(store.state(), SyncState::Pending);
    assert!(
        store.get("n", "a").is_some(),
        "objects can be read while the list goes on"
    );
    assert_eq!(store.position().version, 0, "the list may still bring something older");
    store.feed(Change::Listed(map("b", 2)));
    store.feed(Change::ListEnds);
    assert_eq!(store.state(), SyncState::Synced);
    assert_eq!(
        store.position(),
        Position {
            version: 3,
            list_begun: 1,
            list_done: 1,
            reached: 0,
        }
    );
}

#[test]
fn given_a_second_list_then_only_differences_are_told_and_missing_objects_are_gone() {
    let store = listed(&[("a", 1), ("b", 2), ("c", 3)]);
    let unchanged = store.get("n", "a").expect("a");
    let events = listen(&store);
    assert_eq!(recorded(&events), ["List - a@1", "List - b@2", "List - c@3"]);
    list(&store, &[("a", 1), ("c", 9), ("d", 4)]);
    assert_eq!(recorded(&events), ["List c@3 c@9", "List - d@4", "List b@2 -"]);
    assert!(
        Arc::ptr_eq(&unchanged, &store.get("n", "a").expect("a")),
        "an unchanged object is not replaced"
    );
}

#[test]
fn given_a_list_that_is_begun_again_then_what_only_the_first_attempt_saw_is_gone() {
    let store = listed(&[("a", 1)]);
    store.feed(Change::ListBegins);
    store.feed(Change::Listed(map("b", 2)));
    list(&store, &[("a", 1)]);
    let names: Vec<_> = store.list().iter().map(|each| each.metadata.name.clone()).collect();
    assert_eq!(names, [Some("a".to_owned())]);
}

#[test]
fn given_changes_then_pairs_are_told_in_order_and_the_position_follows() {
    let store = listed(&[("a", 1)]);
    let events = listen(&store);
    recorded(&events);
    store.feed(Change::Applied(map("a", 5)));
    store.feed(Change::Applied(map("b", 6)));
    store.feed(Change::Deleted(named("a"), 7));
    store.feed(Change::Deleted(named("unknown"), 8));
    assert_eq!(recorded(&events), ["Watch a@1 a@5", "Watch - b@6", "Watch a@5 -"]);
    assert_eq!(store.position().version, 8);
}

#[test]
fn given_an_unreadable_version_in_a_list_then_the_last_readable_one_stays() {
    let store = listed(&[("a", 1)]);
    store.feed(Change::ListBegins);
    store.feed(Change::ListedUnreadable(partial("a", 2)));
    store.feed(Change::ListedUnreadable(partial("never-seen", 3)));
    store.feed(Change::ListEnds);
    assert_eq!(store.len(), 1);
    assert!(store.get("n", "a").is_some());
    assert_eq!(unreadable(&store), ["a@2", "never-seen@3"]);
    assert_eq!(store.position().version, 3);
}

#[test]
fn given_objects_that_cannot_be_read_then_they_are_not_absent_until_they_are_read_or_gone() {
    let store = listed(&[("a", 1), ("b", 2)]);
    assert!(unreadable(&store).is_empty());
    store.feed(Change::AppliedUnreadable(partial("a", 3)));
    store.feed(Change::AppliedUnreadable(partial("new", 4)));
    store.feed(Change::AppliedUnreadable(partial("newer", 5)));
    assert_eq!(unreadable(&store), ["a@3", "new@4", "newer@5"]);
    assert!(store.unreadable_in("other").is_empty());
    assert_eq!(
        (store.contains("n", "new"), store.contains("n", "unknown")),
        (true, false)
    );
    assert_eq!(
        store.position().version,
        5,
        "whoever waits for a write of theirs goes on"
    );
    assert_eq!(View::seen(&store, "n", "a").map(|seen| seen.resource_version), Some(3));
    store.feed(Change::Applied(map("a", 6)));
    store.feed(Change::Deleted(named("new"), 7));
    assert_eq!(unreadable(&store), ["newer@5"]);
    list(&store, &[("a", 6)]);
    assert!(unreadable(&store).is_empty(), "a list did not contain it");
}

#[test]
fn given_a_resync_then_every_object_is_told_as_unchanged() {
    let store = listed(&[("a", 1), ("b", 2)]);
    let events = listen(&store);
    recorded(&events);
    store.resync();
    assert_eq!(recorded(&events), ["Resync a@1 a@1", "Resync b@2 b@2"]);
}

#[test]
fn given_a_subscriber_that_panics_then_it_is_counted_and_the_others_are_told() {
    let store = listed(&[]);
    store.subscribe(|_| panic!("on purpose"));
    let events = listen(&store);
    store.feed(Change::Applied(map("a", 1)));
    store.feed(Change::Applied(map("a", 2)));
    assert_eq!(recorded(&events), ["Watch - a@1", "Watch a@1 a@2"]);
    assert_eq!(store.0.handler_panics.get(), 2);
}

#[test]
fn given_an_index_that_was_not_declared_then_the_answer_is_the_same() {
    const BY_UID: Index<ConfigMap> =
        Index::new("uid", |map, key| map.metadata.uid.as_deref().into_iter().for_each(key));
    let undeclared = listed(&[("a", 1), ("b", 2)]);
    let declared = Store::new(Kind::<ConfigMap>::of().index(&BY_UID));
    list(&declared, &[("a", 1), ("b", 2)]);
    for key in ["uid-a", "uid-b", "uid-c"] {
        let names = |store: &Store<ConfigMap>| -> Vec<_> {
            store
                .by(&BY_UID, key)
                .iter()
                .map(|each| each.metadata.name.clone())
                .collect()
        };
        assert_eq!(names(&declared), names(&undeclared), "{key}");
    }
}

#[test]
fn given_a_subscription_while_changes_come_in_then_none_is_missed() {
    let store = listed(&[]);
    let seen = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1000 {
                store.feed(Change::Applied(map(&number.to_string(), number + 1)));
            }
        });
        let seen = seen.clone();
        store.subscribe(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(seen.load(Ordering::Relaxed), 1000);
}
