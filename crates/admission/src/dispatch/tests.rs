use super::*;
use crate::descriptor::{Entry, Live, Needs, Operation, Reach, Resource, descriptors};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use kruise_api::gates::{Gate, Gates};
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

const fn hook(path: &'static str, handler: Handler) -> Hook {
    Hook {
        path,
        alias: None,
        entries: &[Entry {
            name: "x",
            subresource: "",
            operations: &[Operation::Create],
            annotated: &[],
        }],
        live: Live::Always,
        reach: Reach::All,
        handler,
        reads: &[],
    }
}

const fn descriptor(mutate: Hook, validate: Hook, gates: Needs) -> Descriptor {
    Descriptor {
        resource: Resource::BuiltIn {
            group: "g",
            versions: &["v1"],
            plural: "things",
        },
        mutate: Some(mutate),
        validate: Some(validate),
        gates,
        invalid: 422,
        controllers: &[],
        grants: &[],
    }
}

/// Handlers that do what no handler should.
static ODD: &[Descriptor] = &[
    descriptor(
        hook("/panics", Handler::Now(|_, _| panic!("on purpose"))),
        hook(
            "/panics-later",
            Handler::Later(|_, _, _| Box::pin(async { panic!("on purpose") })),
        ),
        Needs::Nothing,
    ),
    descriptor(
        hook("/panics-early", Handler::Later(|_, _, _| panic!("on purpose"))),
        hook("/never", Handler::Later(|_, _, _| Box::pin(std::future::pending()))),
        Needs::Nothing,
    ),
    descriptor(
        hook("/gated", Handler::Now(|_, _| Verdict::allow())),
        hook("/gated-not-built", Handler::NotBuilt),
        Needs::All(&[Gate::ImagePullJobGate]),
    ),
];

fn dispatch(descriptors: impl IntoIterator<Item = &'static Descriptor>) -> Dispatch {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let gates = Gates::default();
    // Nobody is asked in these tests.
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let context = Context::new(client, gates, true, &metrics);
    Dispatch::new(descriptors, context, metrics)
}

async fn ask(dispatch: &Dispatch, path: &str, body: &[u8]) -> (u16, Value) {
    let route = dispatch.route(path).unwrap().clone();
    let deadline = Instant::now() + Duration::from_millis(200);
    let answer = dispatch.answer(&route, body, deadline).await;
    let body = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.code, body)
}

fn review(request: &Value) -> Vec<u8> {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
        .to_string()
        .into_bytes()
}

fn pod_review(owner: &str) -> Vec<u8> {
    review(&json!({
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "ns",
        "object": {
            "metadata": {"ownerReferences": [{"apiVersion": owner, "controller": true}]},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        },
    }))
}

#[tokio::test]
async fn given_a_pod_of_ours_then_the_patch_adds_the_readiness_gate() {
    let dispatch = dispatch(descriptors());
    let (code, answer) = ask(&dispatch, "/mutate-pod", &pod_review("apps.kruise.io/v1beta1")).await;
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    let patch = BASE64.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&patch).unwrap(),
        json!([{"op": "add", "path": "/spec/readinessGates", "value": [{"conditionType": "KruisePodReady"}]}])
    );
    let (_, answer) = ask(&dispatch, "/mutate-pod", &pod_review("apps/v1")).await;
    assert_eq!(
        answer["response"],
        json!({"uid": "u", "allowed": true, "status": {"code": 200}})
    );
}

#[tokio::test]
async fn given_a_namespace_that_cannot_be_one_then_every_handler_refuses() {
    let dispatch = dispatch(descriptors());
    let paths: Vec<_> = dispatch.routes.keys().copied().collect();
    assert!(paths.len() > 40);
    let long = "a".repeat(64);
    for namespace in [
        "../secrets",
        "a/b",
        "a.b",
        "A",
        "a?x=y",
        "%2e%2e",
        " ",
        "-a",
        "a\n",
        &long,
    ] {
        for path in &paths {
            for operation in ["CREATE", "UPDATE", "DELETE"] {
                let request = json!({"uid": "u", "operation": operation, "namespace": namespace, "name": "x"});
                let (code, answer) = ask(&dispatch, path, &review(&request)).await;
                let response = &answer["response"];
                assert_eq!(
                    (code, &response["allowed"]),
                    (200, &json!(false)),
                    "{path}: {namespace:?}"
                );
                let message = response["status"]["message"].as_str().unwrap();
                assert!(
                    message.starts_with("request.namespace: Invalid value: "),
                    "{path}: {message}"
                );
            }
        }
    }
    let request = json!({"uid": "u", "operation": "DELETE", "namespace": "a".repeat(63)});
    let (_, answer) = ask(&dispatch, "/validate-namespace", &review(&request)).await;
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn given_other_requests_about_pods_then_they_pass() {
    let dispatch = dispatch(descriptors());
    for request in [
        json!({"operation": "UPDATE", "resource": {"resource": "pods"}}),
        json!({"operation": "CREATE", "resource": {"resource": "pods"}, "subResource": "eviction"}),
        json!({"operation": "CREATE", "resource": {"group": "g", "resource": "pods"}}),
    ] {
        let (_, answer) = ask(&dispatch, "/mutate-pod", &review(&request)).await;
        assert_eq!(answer["response"]["allowed"], true, "{request}");
    }
    let nothing = json!({"operation": "CREATE", "resource": {"resource": "pods"}});
    let (code, answer) = ask(&dispatch, "/mutate-pod", &review(&nothing)).await;
    assert_eq!((code, &answer["response"]["status"]["code"]), (200, &json!(400)));
}

#[tokio::test]
async fn given_a_kind_that_is_not_built_then_everything_is_allowed_also_by_older_paths() {
    let dispatch = dispatch(descriptors());
    let request = json!({"uid": "u", "operation": "CREATE", "object": {"nonsense": true}});
    for path in [
        "/mutate-apps-kruise-io-cloneset",
        "/mutate-apps-kruise-io-v1alpha1-cloneset",
        "/validate-apps-kruise-io-podprobemarker",
    ] {
        let (code, answer) = ask(&dispatch, path, &review(&request)).await;
        assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)), "{path}");
        assert_eq!(answer["response"].get("patch"), None);
    }
    assert!(dispatch.route("/validate-foo").is_none());
}

#[tokio::test]
async fn given_a_handler_that_panics_or_never_ends_then_the_request_is_refused_and_the_next_one_answered() {
    let dispatch = dispatch(ODD);
    let body = review(&json!({"uid": "u"}));
    for path in ["/panics", "/panics-later", "/panics-early"] {
        let (code, answer) = ask(&dispatch, path, &body).await;
        let response = &answer["response"];
        assert_eq!(
            (code, &response["allowed"], &response["status"]["code"]),
            (200, &json!(false), &json!(500)),
            "{path}"
        );
    }
    assert_eq!(dispatch.metrics.panics.get(), 3);
    let (_, answer) = ask(&dispatch, "/never", &body).await;
    assert_eq!(answer["response"]["status"]["code"], 504);
}

#[tokio::test]
async fn given_a_gate_is_off_then_objects_are_refused_but_can_be_released() {
    let dispatch = dispatch(ODD);
    let object = |finalizers: &[&str], deleting: bool, image: &str| {
        let mut object = json!({"metadata": {"name": "a", "finalizers": finalizers}, "spec": {"image": image}});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        object
    };
    let update = |new: Value, old: Value| review(&json!({"operation": "UPDATE", "object": new, "oldObject": old}));
    let table = [
        (
            review(&json!({"operation": "CREATE", "object": object(&[], false, "a")})),
            false,
        ),
        (update(object(&[], false, "a"), object(&["f"], false, "a")), false),
        (update(object(&[], true, "b"), object(&["f"], true, "a")), false),
        (update(object(&[], true, "a"), object(&["f"], true, "a")), true),
        (
            review(&json!({"operation": "DELETE", "oldObject": object(&[], false, "a")})),
            true,
        ),
    ];
    for (body, allowed) in table {
        let (_, answer) = ask(&dispatch, "/gated", &body).await;
        let response = &answer["response"];
        assert_eq!(response["allowed"], allowed, "{}", String::from_utf8_lossy(&body));
        if !allowed {
            assert_eq!(response["status"]["code"], 403);
            assert_eq!(
                response["status"]["message"],
                "feature-gate ImagePullJobGate is not enabled"
            );
        }
        let (_, answer) = ask(&dispatch, "/gated-not-built", &body).await;
        assert_eq!(answer["response"]["allowed"], true, "what is not built is not refused");
    }
}

#[tokio::test]
async fn requests_are_counted_by_path_and_code() {
    let registry = prometheus::Registry::new();
    let mut dispatch = dispatch(descriptors());
    dispatch.metrics = Metrics::register(&registry).unwrap();
    ask(&dispatch, "/mutate-pod", &pod_review("apps/v1")).await;
    ask(&dispatch, "/mutate-pod", b"nonsense").await;
    ask(&dispatch, "/mutate-apps-kruise-io-v1alpha1-cloneset", b"{}").await;
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/mutate-pod\"} 1",
        "controller_runtime_webhook_requests_total{code=\"400\",webhook=\"/mutate-pod\"} 1",
        "controller_runtime_webhook_requests_total{code=\"400\",webhook=\"/mutate-apps-kruise-io-cloneset\"} 1",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-pod\"} 0",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/mutate-pod\"} 2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

/// Bodies that were a review once.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let good = pod_review("apps.kruise.io/v1beta1");
    let length = good.len();
    let cut = Just(good.clone()).prop_flat_map(move |good| (0..length).prop_map(move |end| good[..end].to_vec()));
    let flipped = (
        Just(good.clone()),
        prop::collection::vec((0..length, any::<u8>()), 1..8),
    )
        .prop_map(|(mut body, flips)| {
            for (position, byte) in flips {
                body[position] = byte;
            }
            body
        });
    let spliced =
        (Just(good.clone()), 0..length, 0..length, "[\\[{\"}\\],:0-9a-z]{0,12}").prop_map(|(body, a, b, text)| {
            let (from, to) = (a.min(b), a.max(b));
            [&body[..from], text.as_bytes(), &body[to..]].concat()
        });
    let retyped = (any::<prop::sample::Index>(), nested()).prop_map(|(index, value)| {
        let mut review: Value = serde_json::from_slice(&pod_review("apps.kruise.io/v1beta1")).unwrap();
        let pointers = [
            "/kind",
            "/apiVersion",
            "/request",
            "/request/uid",
            "/request/resource",
            "/request/operation",
            "/request/object",
            "/request/object/metadata",
            "/request/object/metadata/ownerReferences",
            "/request/object/spec",
            "/request/object/spec/containers",
        ];
        *review.pointer_mut(index.get::<&str>(&pointers)).unwrap() = value;
        review.to_string().into_bytes()
    });
    let deep = (1_usize..5000).prop_map(|depth| {
        let nest = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        review_text(&format!("{{\"spec\":{{\"x\":{nest}}}}}"))
    });
    let raw = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![cut, flipped, spliced, retyped, deep, raw]
}

fn review_text(object: &str) -> Vec<u8> {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","resource":{{"resource":"pods"}},"operation":"CREATE","object":{object}}}}}"#
    )
    .into_bytes()
}

fn nested() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-zA-Z]{0,14}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Any path; the one for Pods, which is asked most, in every second case.
fn paths() -> impl Strategy<Value = &'static str> {
    let hooks = descriptors().flat_map(|descriptor| descriptor.mutate.iter().chain(&descriptor.validate));
    let all: Vec<_> = hooks.map(|hook| hook.path).collect();
    prop_oneof![Just("/mutate-pod"), prop::sample::select(all)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn given_any_body_then_the_answer_is_400_or_a_verdict_and_nothing_panics(body in bodies(), path in paths()) {
        // Building one for each case would be most of the work.
        static SHARED: std::sync::LazyLock<(tokio::runtime::Runtime, Dispatch)> = std::sync::LazyLock::new(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let inside = runtime.enter();
            let dispatch = dispatch(descriptors());
            drop(inside);
            (runtime, dispatch)
        });
        let (runtime, dispatch) = &*SHARED;
        let (code, answer) = runtime.block_on(ask(dispatch, path, &body));
        if code == 200 {
            let response = &answer["response"];
            prop_assert!(response["allowed"].is_boolean(), "{answer}");
            let verdict = response["status"]["code"].as_u64();
            prop_assert!(matches!(verdict, Some(200 | 400 | 403 | 422)), "{answer}");
        } else {
            prop_assert_eq!(code, 400);
        }
        prop_assert_eq!(dispatch.metrics.panics.get(), 0);
    }
}
