use super::*;
use crate::Found;
use futures::{StreamExt as _, future::BoxFuture, stream};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kruise_core::admission::Lookups;
use kruise_runtime::{
    cache::{Change, Kind},
    lease::Leadership,
    writer::{WriterMetrics, WriterOptions},
};
use kube::client::Body;
use prometheus::Registry;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

/// An API server that keeps one spread, and refuses writes that were made from an older version of it.
#[derive(Clone)]
struct Server(Arc<Mutex<Kept>>);

struct Kept {
    spread: Value,
    version: u64,
    reads: usize,
    writes: usize,
    /// Writes that fail before one goes through.
    failures: usize,
}

impl Server {
    fn new(subsets: &Value) -> Self {
        let spread = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread",
            "metadata": {"name": "spread", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}, "subsets": subsets}});
        Self(Arc::new(Mutex::new(Kept {
            spread,
            version: 1,
            reads: 0,
            writes: 0,
            failures: 0,
        })))
    }

    fn kept<T>(&self, look: impl FnOnce(&mut Kept) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let failed = |code: u16, reason: &str| {
            let message = format!("workloadspreads.apps.kruise.io \"spread\": {reason}");
            let details = json!({"name": "spread", "group": "apps.kruise.io", "kind": "workloadspreads"});
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details});
            (code, status)
        };
        self.kept(|kept| {
            if kept.spread.is_null() {
                return failed(404, "NotFound");
            }
            if method == Method::GET {
                kept.reads += 1;
                return (200, kept.spread.clone());
            }
            let patch: Value = serde_json::from_slice(body).unwrap();
            if kept.failures > 0 {
                kept.failures -= 1;
                return failed(500, "InternalError");
            }
            if patch["metadata"]["resourceVersion"] != kept.spread["metadata"]["resourceVersion"] {
                return failed(409, "Conflict");
            }
            kept.writes += 1;
            kept.version += 1;
            let version = kept.version.to_string();
            kruise_api::merge_patch::merge(&mut kept.spread, &patch);
            kept.spread["metadata"]["resourceVersion"] = json!(version);
            (200, kept.spread.clone())
        })
    }

    /// A replica whose cache shows the spread as it is now, and then nothing more.
    fn replica(&self) -> Spreads {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let (code, answer) = server.answer(&parts.method, &body);
                let answer = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let client = Client::new(service, "ns");
        let metrics = WriterMetrics::new(&Registry::new()).unwrap();
        let writer = Writer::new(
            client.clone(),
            Leadership::always(),
            WriterOptions::new("tests"),
            metrics,
        );
        let spreads = Spreads::new(client, writer, VersionedKinds::default());
        let cached: Store<WorkloadSpread> = Store::new(Kind::of());
        cached.feed(Change::ListBegins);
        let spread = self.kept(|kept| kept.spread.clone());
        if !spread.is_null() {
            cached.feed(Change::Applied(serde_json::from_value(spread).unwrap()));
        }
        cached.feed(Change::ListEnds);
        let mut stores = Stores::default();
        stores.insert(cached);
        spreads.read_from(
            stores,
            Store::new(Kind::<PartialObject>::partial(
                k8s_openapi::api::apps::v1::ReplicaSet::RESOURCE,
            )),
        );
        spreads
    }
}

/// A cluster with this workload.
#[derive(Debug)]
struct Workloads(Result<Option<Value>, String>);

impl LookUp for Workloads {
    fn look_up<'a>(&'a self, _: &'a str, needs: Needs, _: Freshness) -> BoxFuture<'a, Found> {
        let objects: BTreeMap<_, _> = needs
            .objects
            .into_iter()
            .map(|object| (object, self.0.clone()))
            .collect();
        Box::pin(async move {
            Found {
                lookups: Lookups {
                    objects,
                    ..Lookups::default()
                },
                is_cached: false,
            }
        })
    }
}

fn ask(pod: &str) -> Ask {
    Ask {
        namespace: "ns".to_owned(),
        spread: "spread".to_owned(),
        version: "v".to_owned(),
        pod: pod.to_owned(),
    }
}

fn two(most: &Value) -> Value {
    json!([{"name": "a", "maxReplicas": most}, {"name": "b"}])
}

async fn subset(spreads: &Spreads, pod: &str) -> String {
    let placed = spreads.place(&ask(pod), &Workloads(Ok(None))).await.unwrap();
    placed.subset.unwrap_or_default()
}

#[tokio::test]
async fn given_two_replicas_with_old_caches_then_no_place_is_given_away_twice() {
    let server = Server::new(&two(&json!(12)));
    let replicas = [server.replica(), server.replica()];
    let placed = stream::iter(0..40).map(|number| {
        let replica = &replicas[number % 2];
        // The workload's controller tries again when a Pod is refused.
        async move {
            loop {
                if let Ok(placed) = replica.place(&ask(""), &Workloads(Ok(None))).await {
                    return placed;
                }
            }
        }
    });
    let placed: Vec<Placement> = placed.buffer_unordered(4).collect().await;
    let in_a: BTreeSet<&str> = placed
        .iter()
        .filter(|placed| placed.subset.as_deref() == Some("a"))
        .map(|placed| placed.uid.as_str())
        .collect();
    assert_eq!(in_a.len(), 12, "each with an id of its own");
    assert_eq!(
        placed
            .iter()
            .filter(|placed| placed.subset.as_deref() == Some("b"))
            .count(),
        28
    );
    let (writes, entries) = server.kept(|kept| {
        let first = &kept.spread["status"]["versionedSubsetStatuses"]["v"][0];
        (kept.writes, first["creatingPods"].as_object().unwrap().len())
    });
    assert_eq!(
        (writes, entries),
        (12, 12),
        "a write for each place, and none for the others"
    );
}

#[tokio::test]
async fn given_a_full_subset_in_an_old_copy_then_the_server_is_asked_before_it_is_passed_over() {
    let server = Server::new(&two(&json!(1)));
    server.kept(|kept| {
        kept.spread["status"] = json!({"versionedSubsetStatuses": {"v": [{"name": "a", "replicas": 1, "missingReplicas": 0}, {"name": "b", "replicas": 0, "missingReplicas": -1}]}});
    });
    let replica = server.replica();
    // Another replica heard of a Pod that leaves.
    let leave = Leave {
        pod: "old".to_owned(),
        uid: String::new(),
        subset: "a".to_owned(),
        version: "v".to_owned(),
        made: None,
    };
    server.replica().leave("ns", "spread", &leave).await.unwrap();
    assert_eq!(subset(&replica, "new").await, "a");
    assert_eq!(server.kept(|kept| kept.reads), 1);
    // Noted once.
    server.replica().leave("ns", "spread", &leave).await.unwrap();
    assert_eq!(server.kept(|kept| kept.writes), 2);
    assert_eq!(subset(&replica, "another").await, "b");
}

#[tokio::test]
async fn given_shares_then_the_workload_is_read_once() {
    let server = Server::new(&two(&json!("50%")));
    let replica = server.replica();
    let workload = Workloads(Ok(Some(json!({"spec": {"replicas": 2}}))));
    assert_eq!(
        replica.place(&ask("p"), &workload).await.unwrap().subset.as_deref(),
        Some("a")
    );
    // From now on the ledger says it.
    let unreachable = Workloads(Err("no answer".to_owned()));
    assert_eq!(
        replica.place(&ask("q"), &unreachable).await.unwrap().subset.as_deref(),
        Some("b")
    );
    let fresh = Server::new(&two(&json!("50%"))).replica();
    let error = fresh.place(&ask("p"), &unreachable).await.unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
}

#[tokio::test]
async fn given_a_write_that_fails_then_the_pod_is_refused_and_the_next_is_decided_anew() {
    let server = Server::new(&two(&json!(1)));
    let replica = server.replica();
    server.kept(|kept| kept.failures = 1);
    assert!(replica.place(&ask("p"), &Workloads(Ok(None))).await.is_err());
    assert_eq!(subset(&replica, "p").await, "a");
    assert_eq!(subset(&replica, "q").await, "b");
}

#[tokio::test]
async fn given_a_spread_that_is_gone_then_it_gives_no_subset_and_nobody_is_kept() {
    let server = Server::new(&two(&json!(1)));
    let replica = server.replica();
    server.kept(|kept| kept.spread = Value::Null);
    assert_eq!(subset(&replica, "p").await, "");
    let leave = Leave {
        pod: "p".to_owned(),
        uid: String::new(),
        subset: "a".to_owned(),
        version: "v".to_owned(),
        made: None,
    };
    replica.leave("ns", "spread", &leave).await.unwrap();
}

#[test]
fn given_ids_then_they_are_random_uuids() {
    let (one, other) = (fresh_id(), fresh_id());
    assert_ne!(one, other);
    let lengths: Vec<_> = one.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(one.as_bytes()[14], b'4');
}
