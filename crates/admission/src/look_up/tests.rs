use super::*;
use kruise_runtime::cache::{Change, Kind, Store};
use serde_json::json;

/// A cache with one Pod, and an API server that nobody reaches.
fn cluster() -> (Cluster, Store<Pod>) {
    let kind = Kind::<Pod>::of();
    let (store, mut stores) = (Store::new(kind), Stores::default());
    stores.insert(store.clone());
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let cluster = Cluster::new(Client::try_from(config).unwrap(), stores);
    store.feed(Change::ListBegins);
    let owners = json!([{"apiVersion": "g/v1", "kind": "K", "name": "k", "uid": "u", "controller": true}]);
    let pod = json!({"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "7", "ownerReferences": owners}});
    store.feed(Change::Listed(serde_json::from_value(pod).unwrap()));
    (cluster, store)
}

async fn look_up(cluster: &Cluster, names: &[&str], freshness: Freshness) -> Found {
    let needs = Needs {
        pods: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Needs::default()
    };
    cluster.look_up("ns", needs, freshness).await
}

#[tokio::test]
async fn given_a_cache_then_it_answers_once_it_is_complete_for_what_it_knows() {
    let (cluster, store) = cluster();
    let found = look_up(&cluster, &["a"], Freshness::Cached).await;
    assert!(!found.is_cached, "the first list is not complete");
    assert!(matches!(found.lookups.pods["a"], NamedPod::Unknown(_)));
    store.feed(Change::ListEnds);
    let found = look_up(&cluster, &["a", "b"], Freshness::Cached).await;
    assert!(found.is_cached);
    let owned = NamedPod::Found {
        controller: Some("u".to_owned()),
        is_being_deleted: false,
    };
    assert_eq!(found.lookups.pods["a"], owned);
    assert!(
        matches!(found.lookups.pods["b"], NamedPod::Unknown(_)),
        "the API server is asked"
    );
    let found = look_up(&cluster, &["a"], Freshness::Live).await;
    assert!(!found.is_cached && matches!(found.lookups.pods["a"], NamedPod::Unknown(_)));
}
