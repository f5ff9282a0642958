use super::*;
use crate::{Budgets, audit::AuditLog, dispatch::Dispatch};
use kruise_api::{gates::Gate, pod::Pod, podunavailablebudget::v1beta1::PodUnavailableBudget};
use kruise_runtime::{
    cache::{Change, Kind, Store, Stores},
    events,
    lease::Leadership,
    writer::{Writer, WriterMetrics, WriterOptions},
};
use prometheus::Registry;
use serde_json::json;
use std::time::{Duration, Instant};

/// Webhooks whose API server cannot be reached, with these Pods and budgets in the cache.
fn dispatch(gates: Gates, pods: &[Value], budgets: &[Value]) -> Dispatch {
    watched(gates, pods, budgets, &Registry::new(), None)
}

/// The same, with what it counts and where it writes down what was refused.
fn watched(gates: Gates, pods: &[Value], budgets: &[Value], registry: &Registry, log: Option<AuditLog>) -> Dispatch {
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    served(client, gates, (pods, budgets), registry, log)
}

/// The same, with this API server.
fn served(
    client: kube::Client,
    gates: Gates,
    (pods, budgets): (&[Value], &[Value]),
    registry: &Registry,
    log: Option<AuditLog>,
) -> Dispatch {
    let metrics = Metrics::register(registry).unwrap();
    let mut stores = Stores::default();
    let known: Store<Pod> = Store::new(Kind::of());
    known.feed(Change::ListBegins);
    for pod in pods {
        known.feed(Change::Applied(serde_json::from_value(pod.clone()).unwrap()));
    }
    known.feed(Change::ListEnds);
    stores.insert(known);
    let known: Store<PodUnavailableBudget> = Store::new(Kind::of());
    known.feed(Change::ListBegins);
    for budget in budgets {
        known.feed(Change::Applied(serde_json::from_value(budget.clone()).unwrap()));
    }
    known.feed(Change::ListEnds);
    stores.insert(known);
    let writes = WriterMetrics::new(registry).unwrap();
    let writer = Writer::new(
        client.clone(),
        Leadership::always(),
        WriterOptions::new("tests"),
        writes,
    );
    let (recorder, _) = events::recorder(writer.clone(), "tests", "", registry).unwrap();
    let asked = Budgets::new(client.clone(), writer, recorder, gates);
    asked.read_from(stores.clone());
    let mut context = Context::new(client.clone(), gates, true, &metrics).with_stores(client, stores, "kruise-system");
    if let Some(log) = log {
        context = context.with_audit_log(log);
    }
    context = context.with_budgets(asked);
    Dispatch::new(descriptors(), context, metrics)
}

fn protecting() -> Gates {
    Gates::default().with(Gate::ResourcesDeletionProtection, true)
}

async fn asked(dispatch: &Dispatch, path: &str, request: Value) -> Value {
    let mut whole = json!({"uid": "1", "namespace": "ns", "name": "a", "userInfo": {"username": "someone"}});
    whole
        .as_object_mut()
        .unwrap()
        .extend(request.as_object().unwrap().clone());
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole});
    let route = dispatch.route(path).unwrap().clone();
    let deadline = Instant::now() + Duration::from_secs(20);
    let answer = dispatch.answer(&route, review.to_string().as_bytes(), deadline).await;
    serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].clone()
}

async fn deleted(dispatch: &Dispatch, path: &str, object: Value) -> Value {
    asked(dispatch, path, json!({"operation": "DELETE", "oldObject": object})).await
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
fn labelled(value: &str, spec: Value) -> Value {
    json!({"metadata": {"name": "a", "labels": {"policy.kruise.io/delete-protection": value}}, "spec": spec})
}

#[track_caller]
fn says(answer: &Value, text: &str) {
    if text.is_empty() {
        assert_eq!(answer["allowed"], true, "{answer}");
        return;
    }
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(403)),
        "{answer}"
    );
    assert!(answer["status"]["message"].as_str().unwrap().contains(text), "{answer}");
    assert!(
        answer["status"]["reason"].is_null(),
        "tools know these refusals without a reason"
    );
}

#[tokio::test]
async fn given_labels_then_objects_whose_own_fields_decide_are_protected() {
    let (on, off) = (dispatch(protecting(), &[], &[]), dispatch(Gates::default(), &[], &[]));
    for (path, value, spec, text) in [
        (
            "/validate-apps-deployment",
            "Always",
            json!({}),
            "delete-protection=Always",
        ),
        (
            "/validate-apps-deployment",
            "Cascading",
            json!({"replicas": 3}),
            "=Cascading and replicas 3>0",
        ),
        ("/validate-apps-replicaset", "Cascading", json!({"replicas": 0}), ""),
        ("/validate-apps-statefulset", "Cascading", json!({}), ""),
        ("/validate-apps-statefulset", "always", json!({"replicas": 3}), ""),
        ("/validate-service", "Always", json!({"ports": []}), "=Always"),
        ("/validate-service", "Cascading", json!({}), ""),
        ("/validate-ingress", "Always", json!({}), "=Always"),
        ("/validate-namespace", "Always", json!({}), "=Always"),
        ("/validate-customresourcedefinition", "Always", json!({}), "=Always"),
        (
            "/validate-customresourcedefinition",
            "Cascading",
            json!({}),
            "feature-gate DeletionProtectionForCRDCascadingGate is not enabled",
        ),
    ] {
        says(&deleted(&on, path, labelled(value, spec.clone())).await, text);
        says(&deleted(&off, path, labelled(value, spec)).await, "");
    }
    let mut leaving = labelled("Always", json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    says(&deleted(&on, "/validate-apps-deployment", leaving).await, "");
    let unreadable = deleted(&on, "/validate-apps-deployment", json!({"metadata": []})).await;
    assert_eq!(unreadable["status"]["code"], 400);
    says(
        &asked(&on, "/validate-apps-deployment", json!({"operation": "DELETE"})).await,
        "",
    );
}

#[tokio::test]
async fn given_children_that_cannot_be_listed_then_the_answer_is_no_and_says_why() {
    let on = dispatch(
        protecting().with(Gate::DeletionProtectionForCRDCascadingGate, true),
        &[],
        &[],
    );
    let namespace = deleted(&on, "/validate-namespace", labelled("Cascading", json!({}))).await;
    says(
        &namespace,
        "forbidden by ResourcesProtectionDeletion for list pods error: ",
    );
    let definition = json!({
        "group": "example.com", "names": {"kind": "Game", "plural": "games"},
        "versions": [{"name": "v1alpha1"}, {"name": "v1", "storage": true}],
    });
    let definition = deleted(
        &on,
        "/validate-customresourcedefinition",
        labelled("Cascading", definition),
    )
    .await;
    says(&definition, "failed to list CRs of example.com/v1, Kind=Game: ");
}

#[tokio::test]
async fn given_pods_in_the_cache_then_a_namespace_is_not_deleted() {
    let pod = |name: &str, phase: &str| json!({"metadata": {"name": name, "namespace": "a", "uid": name}, "status": {"phase": phase}});
    let pods = [pod("one", "Running"), pod("two", "Pending"), pod("done", "Succeeded")];
    let on = dispatch(protecting(), &pods, &[]);
    let answer = deleted(&on, "/validate-namespace", labelled("Cascading", json!({}))).await;
    says(&answer, "=Cascading and active pods 2>0");
}

fn covered(ready: bool) -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "annotations": {"pub.kruise.io/related-pub": "web"}},
        "spec": {"containers": [{"name": "main", "image": "i:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

fn budget(allowed: i32) -> Value {
    let status =
        json!({"unavailableAllowed": allowed, "currentAvailable": 3, "desiredAvailable": 2, "totalReplicas": 3});
    json!({"metadata": {"name": "web", "namespace": "ns", "uid": "b", "resourceVersion": "5"}, "spec": {"maxUnavailable": 1}, "status": status})
}

fn pods() -> Value {
    json!({"group": "", "version": "v1", "resource": "pods"})
}

#[tokio::test]
async fn given_pods_that_need_no_place_then_nobody_has_to_be_asked() {
    let gates = Gates::default().with(Gate::PodUnavailableBudgetUpdateGate, true);
    let on = dispatch(gates, &[], &[]);
    let plain = json!({"metadata": {"name": "a", "namespace": "ns"}});
    let mut image = covered(true);
    image["spec"]["containers"][0]["image"] = json!("i:2");
    let mut label = covered(true);
    label["metadata"]["labels"] = json!({"a": "b"});
    for request in [
        json!({"operation": "DELETE", "resource": pods(), "oldObject": plain}),
        json!({"operation": "DELETE", "resource": pods(), "oldObject": covered(false)}),
        json!({"operation": "DELETE", "resource": pods()}),
        json!({"operation": "UPDATE", "resource": pods(), "object": label, "oldObject": covered(true)}),
        json!({"operation": "UPDATE", "resource": pods(), "subResource": "status", "object": image, "oldObject": covered(true)}),
        json!({"operation": "CREATE", "resource": pods(), "subResource": "eviction", "object": {"metadata": {"name": "a"}}}),
    ] {
        let answer = asked(&on, "/validate-pod", request.clone()).await;
        assert_eq!(answer["allowed"], true, "{request}: {answer}");
    }
}

#[tokio::test]
async fn given_a_budget_that_cannot_be_asked_or_written_then_the_pod_stays() {
    let mut image = covered(true);
    image["spec"]["containers"][0]["image"] = json!("i:2");
    let mut resized = covered(true);
    resized["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let update = json!({"operation": "UPDATE", "resource": pods(), "object": image, "oldObject": covered(true)});
    let requests = [
        json!({"operation": "DELETE", "resource": pods(), "oldObject": covered(true)}),
        json!({"operation": "CREATE", "resource": pods(), "subResource": "eviction", "object": {"metadata": {"name": "a"}}}),
        json!({"operation": "UPDATE", "resource": pods(), "subResource": "resize", "object": resized, "oldObject": covered(true)}),
        update.clone(),
    ];
    let gates = Gates::default().with(Gate::PodUnavailableBudgetUpdateGate, true);
    for (budgets, code) in [
        // The place cannot be written down.
        (vec![budget(1)], 403),
        // Nobody is refused for what only the cache says, and nobody is let go.
        (vec![budget(0)], 400),
        (vec![], 400),
    ] {
        let dispatch = dispatch(gates, &[covered(true)], &budgets);
        for request in &requests {
            let answer = asked(&dispatch, "/validate-pod", request.clone()).await;
            assert_eq!(
                (&answer["allowed"], &answer["status"]["code"]),
                (&json!(false), &json!(code)),
                "{request}: {answer}"
            );
        }
    }
    let dry = json!({"operation": "DELETE", "resource": pods(), "dryRun": true, "oldObject": covered(true)});
    let answer = asked(&dispatch(gates, &[], &[budget(1)]), "/validate-pod", dry).await;
    assert_eq!(answer["allowed"], true, "nothing is written in a dry run: {answer}");
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}});
    let dry = json!({"operation": "CREATE", "resource": pods(), "subResource": "eviction", "object": eviction});
    let answer = asked(&dispatch(gates, &[covered(true)], &[budget(1)]), "/validate-pod", dry).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    let answer = asked(&dispatch(Gates::default(), &[], &[budget(0)]), "/validate-pod", update).await;
    assert_eq!(
        answer["allowed"], true,
        "updates are not asked about without the gate: {answer}"
    );
}

#[tokio::test]
async fn given_a_place_then_an_eviction_that_is_asked_again_is_about_the_pod_that_is_there() {
    let mut taken = budget(0);
    taken["status"]["disruptedPods"] = json!({"a": jiff::Timestamp::now().to_string()});
    let evict = json!({"operation": "CREATE", "resource": pods(), "subResource": "eviction", "object": {"metadata": {"name": "a"}}});
    for (uid, allowed) in [("u", true), ("v", false)] {
        let mut live = covered(true);
        live["metadata"]["uid"] = json!(uid);
        live["metadata"]["creationTimestamp"] = json!("2124-05-01T10:00:00Z");
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_pod = request.uri().path().ends_with("/namespaces/ns/pods/a");
            let answer = http::Response::builder().status(if is_pod { 200 } else { 500 });
            let answer = answer.body(kube::client::Body::from(live.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
        });
        let client = kube::Client::new(service, "default");
        let known = ([covered(true)], [taken.clone()]);
        let dispatch = served(client, Gates::default(), (&known.0, &known.1), &Registry::new(), None);
        let answer = asked(&dispatch, "/validate-pod", evict.clone()).await;
        assert_eq!(answer["allowed"], allowed, "{uid}: {answer}");
    }
    let deletion = json!({"operation": "DELETE", "resource": pods(), "oldObject": covered(true)});
    let answer = asked(&dispatch(Gates::default(), &[], &[taken]), "/validate-pod", deletion).await;
    assert_eq!(answer["allowed"], true, "its own place: {answer}");
}

#[tokio::test]
async fn given_an_update_that_names_another_budget_then_the_one_before_is_asked() {
    let gates = Gates::default().with(Gate::PodUnavailableBudgetUpdateGate, true);
    let dispatch = dispatch(gates, &[], &[budget(1)]);
    let changed = |named: &str| {
        let mut pod = covered(true);
        pod["spec"]["containers"][0]["image"] = json!("i:2");
        pod["metadata"]["annotations"] = json!({"pub.kruise.io/related-pub": named});
        pod
    };
    let mut uncovered = covered(true);
    uncovered["metadata"]["annotations"] = json!({});
    for (old, code) in [(covered(true), 403), (uncovered, 200)] {
        let request = json!({"operation": "UPDATE", "resource": pods(), "object": changed("other"), "oldObject": old});
        let answer = asked(&dispatch, "/validate-pod", request).await;
        let found = answer["status"]["code"].as_i64().unwrap_or(200);
        assert_eq!(found, code, "{answer}");
    }
}

#[tokio::test]
async fn given_refusals_then_each_is_counted_and_written_down_as_its_kind_is() {
    let (registry, folder) = (Registry::new(), tempfile::tempdir().unwrap());
    let log = AuditLog::open(folder.path()).unwrap();
    let gates = protecting().with(Gate::PodUnavailableBudgetUpdateGate, true);
    let on = watched(gates, &[], &[budget(1)], &registry, Some(log));
    for path in [
        "/validate-namespace",
        "/validate-customresourcedefinition",
        "/validate-apps-deployment",
        "/validate-service",
        "/validate-ingress",
    ] {
        says(&deleted(&on, path, labelled("Always", json!({}))).await, "=Always");
    }
    let mut owned = covered(true);
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "s", "controller": true}]);
    for pod in [covered(true), owned] {
        let request = json!({"operation": "DELETE", "resource": pods(), "oldObject": pod});
        let answer = asked(&on, "/validate-pod", request).await;
        let status = &answer["status"];
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(403), &json!("Forbidden")),
            "{answer}"
        );
    }
    let counted = |metric: &str, label: &str| -> f64 {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == metric);
        let metrics = family
            .map(prometheus::proto::MetricFamily::get_metric)
            .unwrap_or_default();
        let named = |metric: &&prometheus::proto::Metric| {
            let labels = metric.get_label();
            labels.iter().any(|pair| pair.value() == label) && labels.iter().any(|pair| pair.value() == "someone")
        };
        metrics
            .iter()
            .filter(named)
            .map(|metric| metric.get_counter().get_value())
            .sum()
    };
    for (metric, label) in [
        ("namespace_deletion_protection", "a"),
        ("crd_deletion_protection", "a"),
        ("workload_deletion_protection", "Deployment_ns_a"),
        ("pod_unavailable_budget", "unknown_ns_a"),
        ("pod_unavailable_budget", "CloneSet_ns_web"),
    ] {
        assert!((counted(metric, label) - 1.0).abs() < 0.1, "{metric} {label}");
    }
    let text = std::fs::read_to_string(folder.path().join("protection.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |event: &str, kind: &str, namespace: &str, name: &str| json!({"Event": event, "Kind": kind, "Namespace": namespace, "Name": name, "UserAgent": "someone"});
    assert_eq!(
        lines,
        [
            line("DeletionProtection", "Namespace", "", "a"),
            line("DeletionProtection", "CustomResourceDefinition", "", "a"),
            line("DeletionProtection", "Deployment", "ns", "a"),
            line("PodUnavailableBudget", "unknown", "ns", "a"),
            line("PodUnavailableBudget", "CloneSet", "ns", "web"),
        ],
        "Services and Ingresses are not written down"
    );
}
