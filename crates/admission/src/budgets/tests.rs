use super::*;
use crate::audit::AuditLog;
use http::{Method, Request, Response};
use kruise_runtime::{
    cache::{Change, Kind},
    events,
    lease::Leadership,
    writer::{WriterMetrics, WriterOptions},
};
use kube::client::Body;
use prometheus::{IntCounterVec, Opts, Registry};
use serde_json::{Value, json};
use std::convert::Infallible;

/// An API server with one budget, which somebody else changes a few times at the wrong moment. It remembers what it was asked.
#[derive(Default)]
struct Server {
    version: u64,
    conflicts: u32,
    reads: u32,
    writes: u32,
    is_gone: bool,
    is_exhausted: bool,
    refuses_writes: bool,
    /// Places besides the first.
    more: i32,
    /// What was written last.
    written: Value,
}

fn budget(version: u64, allowed: i32) -> Value {
    let status =
        json!({"unavailableAllowed": allowed, "currentAvailable": 3, "desiredAvailable": 2, "totalReplicas": 3});
    json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "web", "namespace": "ns", "uid": "b", "resourceVersion": version.to_string()},
        "spec": {"maxUnavailable": 1}, "status": status,
    })
}

fn answer(server: &Mutex<Server>, method: &Method, body: Value) -> (u16, Value) {
    let failure = |code: u16, reason: &str| {
        let details = json!({"group": "policy.kruise.io", "kind": "podunavailablebudgets", "name": "web"});
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code, "details": details,
        });
        (code, status)
    };
    let mut server = server.lock().unwrap();
    if *method == Method::GET {
        server.reads += 1;
        if server.is_gone {
            return failure(404, "NotFound");
        }
        return (200, server.budget());
    }
    server.writes += 1;
    server.written = body;
    if server.is_gone {
        return failure(404, "NotFound");
    }
    if server.refuses_writes {
        return failure(403, "Forbidden");
    }
    if server.conflicts > 0 {
        server.conflicts -= 1;
        server.version += 1;
        return failure(409, "Conflict");
    }
    server.version += 1;
    let left = server.written["status"]["unavailableAllowed"].as_i64().unwrap();
    server.more = i32::try_from(left).unwrap() - 1;
    (200, server.budget())
}

impl Server {
    fn budget(&self) -> Value {
        budget(self.version, if self.is_exhausted { 0 } else { self.more + 1 })
    }
}

/// Budgets of this server, with what the cache knows of the one: nothing, or this version.
fn budgets(server: &Arc<Mutex<Server>>, cached: Option<u64>) -> Budgets {
    let served = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let served = served.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, body) = answer(&served, &head.method, body);
            let response = Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let client = Client::new(service, "default");
    let registry = Registry::new();
    let writes = WriterMetrics::new(&registry).unwrap();
    let writer = Writer::new(
        client.clone(),
        Leadership::always(),
        WriterOptions::new("tests"),
        writes,
    );
    let (recorder, _) = events::recorder(writer.clone(), "tests", "", &registry).unwrap();
    let budgets = Budgets::new(client, writer, recorder, Gates::default());
    let mut stores = Stores::default();
    let store: Store<PodUnavailableBudget> = Store::new(Kind::of().index(&BUDGETS_BY_NAMESPACE));
    store.feed(Change::ListBegins);
    if let Some(version) = cached {
        let allowed = server.lock().unwrap().more + 1;
        store.feed(Change::Listed(
            serde_json::from_value(budget(version, allowed)).unwrap(),
        ));
    }
    store.feed(Change::ListEnds);
    stores.insert(store);
    let pods: Store<Pod> = Store::new(Kind::of());
    pods.feed(Change::Applied(pod()));
    stores.insert(pods);
    budgets.read_from(stores);
    budgets
}

fn pod() -> Pod {
    let pod = json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "annotations": {"pub.kruise.io/related-pub": "web"}},
        "spec": {"containers": [{"name": "main", "image": "i:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn named(name: &str) -> Pod {
    let mut pod = pod();
    pod.metadata.name = name.into();
    pod
}

fn changed_by_others(conflicts: u32) -> Arc<Mutex<Server>> {
    Arc::new(Mutex::new(Server {
        version: 5,
        conflicts,
        ..Server::default()
    }))
}

#[tokio::test]
async fn given_four_conflicts_in_a_row_then_the_answer_is_no_and_with_fewer_a_place_is_taken() {
    for (conflicts, granted) in [(0, true), (1, true), (3, true), (4, false)] {
        let server = changed_by_others(conflicts);
        let grant = budgets(&server, Some(5))
            .ask(&pod(), Operation::Delete, "someone", false)
            .await
            .unwrap();
        assert_eq!(grant == Grant::Yes, granted, "{conflicts}: {grant:?}");
        let server = server.lock().unwrap();
        assert_eq!(server.writes, conflicts.min(3) + 1);
        assert_eq!(
            server.reads,
            conflicts.min(3),
            "read once more after each conflict, and not before"
        );
    }
}

#[tokio::test]
async fn given_what_was_written_a_moment_ago_then_the_next_write_names_that_version_without_a_read() {
    let server = changed_by_others(0);
    let budgets = budgets(&server, Some(5));
    assert_eq!(
        budgets.ask(&pod(), Operation::Delete, "someone", false).await.unwrap(),
        Grant::Yes
    );
    let line = budgets.line("ns", "web");
    let latest = line.turn.lock().await.latest.clone().unwrap();
    assert_eq!(
        (
            latest.resource_version(),
            latest.status.as_ref().unwrap().unavailable_allowed
        ),
        (6, 0)
    );
    // The place is this Pod's already: nobody has to be asked.
    assert_eq!(
        budgets.ask(&pod(), Operation::Delete, "someone", false).await.unwrap(),
        Grant::Again
    );
    let server = server.lock().unwrap();
    assert_eq!((server.reads, server.writes), (0, 1));
}

#[tokio::test]
async fn given_a_budget_that_is_gone_then_the_pod_may_go_whatever_the_cache_says() {
    for cached in [None, Some(5)] {
        let server = changed_by_others(0);
        server.lock().unwrap().is_gone = true;
        let grant = budgets(&server, cached)
            .ask(&pod(), Operation::Evict, "someone", false)
            .await
            .unwrap();
        assert_eq!(grant, Grant::Yes);
    }
}

#[tokio::test]
async fn given_budgets_of_two_namespaces_then_each_finds_its_own() {
    let budgets = budgets(&changed_by_others(0), Some(5));
    assert_eq!(budgets.of_namespace("ns").len(), 1);
    assert_eq!(budgets.of_namespace("other").len(), 0);
    let owner = WorkloadRef::new("apps/v1", "ReplicaSet", "web-1");
    assert_eq!(
        budgets.workload_of("ns", owner.clone()),
        owner,
        "who owns it is not known"
    );
    let heads = Store::<PartialObject>::new(Kind::partial(ReplicaSet::RESOURCE));
    heads.feed(Change::ListBegins);
    let head = json!({"metadata": {"name": "web-1", "namespace": "ns", "uid": "r", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true},
    ]}});
    heads.feed(Change::Listed(serde_json::from_value(head).unwrap()));
    heads.feed(Change::ListEnds);
    budgets.know_replica_sets(heads);
    assert_eq!(
        budgets.workload_of("ns", owner.clone()),
        WorkloadRef::new("apps/v1", "Deployment", "web")
    );
    assert_eq!(budgets.workload_of("other", owner.clone()), owner);
}

#[tokio::test]
async fn given_many_who_ask_at_once_then_they_share_the_answers_of_the_api_server() {
    let server = changed_by_others(0);
    server.lock().unwrap().is_exhausted = true;
    let budgets = budgets(&server, None);
    let pod = pod();
    let asked = (0..100).map(|_| budgets.ask(&pod, Operation::Evict, "someone", false));
    for grant in futures::future::join_all(asked).await {
        assert!(matches!(grant.unwrap(), Grant::No(_)));
    }
    let reads = server.lock().unwrap().reads;
    assert!(
        reads <= 2,
        "{reads}: the first, and one that was sent when all had asked"
    );
    // Who asks later wants to know what is true then.
    let later = budgets.ask(&pod, Operation::Evict, "someone", false).await.unwrap();
    assert!(matches!(later, Grant::No(_)));
    assert_eq!(server.lock().unwrap().reads, reads + 1);
}

#[tokio::test]
async fn given_many_who_take_places_at_once_then_one_write_brings_all_but_the_first() {
    for (conflicts, places) in [(0, 40), (0, 10), (1, 40)] {
        let server = changed_by_others(conflicts);
        server.lock().unwrap().more = places - 1;
        let budgets = budgets(&server, Some(5));
        let pods: Vec<Pod> = (0..20).map(|number| named(&format!("pod-{number}"))).collect();
        let asked = pods
            .iter()
            .map(|pod| budgets.ask(pod, Operation::Evict, "someone", false));
        let grants = futures::future::join_all(asked).await;
        let granted = grants.iter().filter(|grant| **grant == Ok(Grant::Yes)).count();
        let line = budgets.line("ns", "web");
        let latest = line.turn.lock().await.latest.clone().unwrap();
        let left = latest.status.as_ref().unwrap().unavailable_allowed;
        assert_eq!(granted, 20.min(usize::try_from(places).unwrap()), "{grants:?}");
        assert_eq!(left, (places - 20).max(0));
        let server = server.lock().unwrap();
        let disrupted = server.written["status"]["disruptedPods"].as_object().unwrap().len();
        match conflicts {
            0 => assert_eq!((server.writes, disrupted), (2, granted - 1)),
            _ => assert!(server.writes <= 4, "{}", server.writes),
        }
    }
}

#[tokio::test]
async fn given_two_who_ask_about_one_pod_then_it_takes_one_place_and_both_fail_with_the_write() {
    for refuses_writes in [false, true] {
        let server = changed_by_others(0);
        server.lock().unwrap().more = 5;
        server.lock().unwrap().refuses_writes = refuses_writes;
        let budgets = budgets(&server, Some(5));
        let (first, pod) = (named("first"), named("pod"));
        let asked = [&first, &pod, &pod].map(|pod| budgets.ask(pod, Operation::Evict, "someone", false));
        let grants = futures::future::join_all(asked).await;
        let grants: Vec<Grant> = grants.into_iter().map(Result::unwrap).collect();
        let server = server.lock().unwrap();
        assert_eq!(server.writes, 2);
        if refuses_writes {
            assert!(grants.iter().all(|grant| matches!(grant, Grant::No(_))), "{grants:?}");
        } else {
            assert_eq!(grants, [Grant::Yes, Grant::Yes, Grant::Again]);
            assert_eq!(server.more, 3, "of six places two are taken");
        }
    }
}

#[tokio::test]
async fn given_somebody_who_goes_away_while_all_are_answered_then_the_others_are_answered_all_the_same() {
    let server = changed_by_others(0);
    server.lock().unwrap().more = 5;
    let budgets = budgets(&server, Some(5));
    let pods = ["a", "b", "c"].map(named);
    let line = budgets.line("ns", "web");
    // All wait for their turn; then the first has it and goes away.
    let turn = line.turn.lock().await;
    let mut asked: Vec<_> = pods
        .iter()
        .map(|pod| Box::pin(budgets.ask(pod, Operation::Evict, "someone", false)))
        .collect();
    for one in &mut asked {
        assert!(futures::poll!(one).is_pending());
    }
    drop(turn);
    assert!(futures::poll!(&mut asked[0]).is_pending(), "it writes for all");
    drop(asked.remove(0));
    for grant in futures::future::join_all(asked).await {
        assert_eq!(grant.unwrap(), Grant::Yes);
    }
}

#[tokio::test]
async fn given_a_conflict_then_nobody_uses_that_version_again() {
    let server = changed_by_others(1);
    let budgets = budgets(&server, Some(5));
    let pods = ["a", "b", "c"].map(named);
    let asked = pods
        .iter()
        .map(|pod| budgets.ask(pod, Operation::Delete, "someone", false));
    for grant in futures::future::join_all(asked).await {
        grant.unwrap();
    }
    let server = server.lock().unwrap();
    assert_eq!(server.writes, 2, "one that had an old version, and the only place");
}

#[tokio::test]
async fn given_a_controller_that_asks_again_and_again_then_each_refusal_counts_and_one_line_is_written() {
    let server = changed_by_others(0);
    server.lock().unwrap().is_exhausted = true;
    let budgets = budgets(&server, None);
    let counter = || IntCounterVec::new(Opts::new("a", "b"), &["kind_namespace_name", "username"]).unwrap();
    let (refused, folder) = (counter(), tempfile::tempdir().unwrap());
    budgets.write_refusals_to(Audit {
        log: Some(Arc::new(AuditLog::open(folder.path()).unwrap())),
        workloads: counter(),
        namespaces: counter(),
        definitions: counter(),
        budgets: refused.clone(),
    });
    for _ in 0..3 {
        let grant = budgets.ask_for("ns", "a", Operation::Delete).await.unwrap();
        assert!(matches!(grant, Grant::No(_)));
    }
    let asked = budgets.ask(&pod(), Operation::Delete, "someone", true).await.unwrap();
    assert!(matches!(asked, Grant::No(_)));
    let counted = |user| refused.with_label_values(&["unknown_ns_a", user]).get();
    assert_eq!((counted("kruise-manager"), counted("someone")), (3, 1));
    let text = std::fs::read_to_string(folder.path().join("protection.log")).unwrap();
    let users: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["UserAgent"].clone())
        .collect();
    assert_eq!(users, ["kruise-manager", "someone"]);
}
