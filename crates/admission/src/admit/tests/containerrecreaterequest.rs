use super::*;
use crate::review;
use kruise_core::{admission::ObjectRef, containerrecreaterequest::admit::Submitted};
use serde_json::json;

/// Knows the Pod `web` on `node-1`; the Pod `silent` cannot be asked for, and `lost` is on a node that is no more.
#[derive(Debug)]
struct Cluster;

impl LookUp for Cluster {
    fn look_up<'a>(&'a self, namespace: &'a str, needs: Needs, _: Freshness) -> BoxFuture<'a, Found> {
        let find = move |object: ObjectRef| {
            let found = match &object {
                ObjectRef::Pod(name) => pod(namespace, name),
                ObjectRef::Node(name) => Ok((name == "node-1").then(|| json!({"metadata": {"name": name}}))),
                _ => Ok(None),
            };
            (object, found)
        };
        Box::pin(async move {
            Found {
                lookups: Lookups {
                    objects: needs.objects.into_iter().map(find).collect(),
                    ..Lookups::default()
                },
                is_cached: false,
            }
        })
    }
}

fn pod(namespace: &str, name: &str) -> Result<Option<Value>, String> {
    let node = if name == "lost" { "node-2" } else { "node-1" };
    match name {
        "web" | "lost" => Ok(Some(json!({
            "metadata": {"name": name, "namespace": namespace, "uid": "u"},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "containerID": "c://1", "restartCount": 2}]},
        }))),
        "silent" => Err("no answer".to_owned()),
        _ => Ok(None),
    }
}

async fn asked(operation: &str, object: &Value, old: Option<&Value>) -> Verdict {
    let context = context(Gates::default(), Cluster);
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "namespace": "ns", "name": "r",
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "containerrecreaterequests"},
        "object": object, "oldObject": old,
    }})
    .to_string();
    let (_, request) = review::read(review.as_bytes()).unwrap();
    mutate::<Submitted>(&request, &context, descriptor("containerrecreaterequests")).await
}

fn request(pod: &str) -> Value {
    json!({"metadata": {"name": "r"}, "spec": {"podName": pod, "containers": [{"name": "main"}]}})
}

#[tokio::test]
async fn given_a_pod_then_the_request_is_completed_from_it() {
    let sent = request("web");
    let verdict = asked("CREATE", &sent, None).await;
    assert!(verdict.allowed, "{verdict:?}");
    let mut stored = sent.clone();
    for operation in &verdict.patch {
        assert!(kruise_core::json_patch::apply(&mut stored, operation));
    }
    assert_eq!(stored["metadata"]["labels"]["crr.apps.kruise.io/node-name"], "node-1");
    assert_eq!(
        stored["spec"]["containers"][0]["statusContext"],
        json!({"containerID": "c://1", "restartCount": 2})
    );
    assert!(asked("UPDATE", &stored, Some(&stored)).await.allowed);
    assert_eq!(asked("UPDATE", &request("web"), Some(&stored)).await.code, 403);
    assert!(asked("DELETE", &Value::Null, Some(&stored)).await.allowed);
}

#[tokio::test]
async fn given_a_pod_that_is_not_there_or_cannot_be_asked_for_then_the_request_is_refused() {
    for (pod, code, says) in [
        ("other", 400, "no found Pod named other"),
        ("", 400, "spec.podName: Required value: podName can not be empty"),
        ("silent", 500, "Pod silent cannot be looked up: no answer"),
        ("lost", 400, "no found Node node-2"),
    ] {
        let verdict = asked("CREATE", &request(pod), None).await;
        assert_eq!(verdict.code, code, "{verdict:?}");
        assert!(verdict.message.contains(says), "{}", verdict.message);
    }
}
