use super::*;
use kruise_api::gates::Gate;
use kruise_core::{admission::NamedPod, cloneset::version::Submitted};
use serde_json::json;

/// Every Pod belongs to the CloneSet with UID `u`, but for `foreign`; the cache does not know that yet of `adopted`.
#[derive(Debug)]
struct Cluster;

impl LookUp for Cluster {
    fn look_up<'a>(&'a self, _: &'a str, needs: Needs, freshness: Freshness) -> BoxFuture<'a, Found> {
        let is_cached = freshness == Freshness::Cached;
        let found = move |name: String| {
            let pod = NamedPod::Found {
                controller: (name != "foreign" && !(is_cached && name == "adopted")).then(|| "u".to_owned()),
                is_being_deleted: false,
            };
            (name, pod)
        };
        Box::pin(async move {
            Found {
                lookups: Lookups {
                    pods: needs.pods.into_iter().map(found).collect(),
                    ..Lookups::default()
                },
                is_cached,
            }
        })
    }
}

fn context() -> Context {
    super::context(Gates::default().with(Gate::ResourcesDeletionProtection, true), Cluster)
}

async fn mutate(request: &Request<'_>, context: &Context) -> Verdict {
    super::mutate::<Submitted>(request, context, descriptor("clonesets")).await
}

async fn validate(request: &Request<'_>, context: &Context) -> Verdict {
    super::validate::<Submitted>(request, context, descriptor("clonesets")).await
}

fn cloneset(version: &str) -> Value {
    json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet",
        "metadata": {"name": "web", "uid": "u"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx", "novel": 1}]},
            },
        },
    })
}

fn review(version: &str, operation: &str, object: Option<&Value>, old: Option<&Value>) -> String {
    json!({
        "uid": "1", "operation": operation, "namespace": "ns", "name": "web",
        "resource": {"group": "apps.kruise.io", "version": version, "resource": "clonesets"},
        "object": object, "oldObject": old,
    })
    .to_string()
}

fn changed(object: &Value, verdict: &Verdict) -> Value {
    let mut object = object.clone();
    for operation in &verdict.patch {
        assert!(kruise_core::json_patch::apply(&mut object, operation), "{operation:?}");
    }
    object
}

/// Both webhooks, one after the other, as the API server does.
async fn admit(version: &str, operation: &str, object: &Value, old: Option<&Value>) -> Result<Value, (u16, String)> {
    let context = context();
    let said = |verdict: &Verdict| (verdict.code, verdict.message.clone());
    let text = review(version, operation, Some(object), old);
    let verdict = mutate(&serde_json::from_str(&text).unwrap(), &context).await;
    if !verdict.allowed {
        return Err(said(&verdict));
    }
    let object = changed(object, &verdict);
    let text = review(version, operation, Some(&object), old);
    let request: Request<'_> = serde_json::from_str(&text).unwrap();
    let verdict = validate(&request, &context).await;
    if verdict.allowed {
        assert!(verdict.patch.is_empty(), "judging changes nothing");
        Ok(object)
    } else {
        Err(said(&verdict))
    }
}

#[tokio::test]
async fn given_a_new_cloneset_then_it_is_completed_and_passes() {
    for version in ["v1alpha1", "v1beta1"] {
        let admitted = admit(version, "CREATE", &cloneset(version), None).await.unwrap();
        assert_eq!(admitted["spec"]["revisionHistoryLimit"], 10);
        let container = &admitted["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            (&container["imagePullPolicy"], &container["novel"]),
            (&json!("Always"), &json!(1))
        );
    }
}

#[tokio::test]
async fn given_what_cannot_be_read_then_it_is_a_bad_request_that_names_the_field() {
    let mut bad = cloneset("v1beta1");
    bad["spec"]["replicas"] = json!("two");
    let (code, message) = admit("v1beta1", "CREATE", &bad, None).await.unwrap_err();
    assert_eq!(code, 400);
    assert!(message.starts_with("spec.replicas: "), "{message}");
    let (code, message) = admit("v2", "CREATE", &cloneset("v2"), None).await.unwrap_err();
    assert_eq!((code, message.as_str()), (400, "there is no version v2 of CloneSet"));
    for hook in ["mutate", "validate"] {
        let text = review("v1beta1", "CREATE", None, None);
        let request: Request<'_> = serde_json::from_str(&text).unwrap();
        let verdict = match hook {
            "mutate" => mutate(&request, &context()).await,
            _ => validate(&request, &context()).await,
        };
        assert_eq!((verdict.allowed, verdict.code), (false, 400), "{hook}");
    }
}

#[tokio::test]
async fn given_broken_rules_then_all_of_them_are_told() {
    let old = admit("v1alpha1", "CREATE", &cloneset("v1alpha1"), None).await.unwrap();
    let mut new = old.clone();
    new["spec"]["selector"] = json!({"matchLabels": {"app": "api"}});
    new["spec"]["scaleStrategy"] = json!({"podsToDelete": ["web-1", "foreign"]});
    let (code, message) = admit("v1alpha1", "UPDATE", &new, Some(&old)).await.unwrap_err();
    assert_eq!(code, 422);
    for part in [
        "[spec: Forbidden: updates to cloneset spec",
        "`selector` does not match template `labels`",
        "spec.scaleStrategy.podsToDelete: Invalid value: \"foreign\": find pod foreign owner is not this CloneSet]",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert!(!message.contains("web-1"), "{message}");
}

#[tokio::test]
async fn given_a_cache_that_is_behind_then_nobody_is_refused_for_it() {
    let old = admit("v1alpha1", "CREATE", &cloneset("v1alpha1"), None).await.unwrap();
    let mut new = old.clone();
    new["spec"]["scaleStrategy"] = json!({"podsToDelete": ["web-1", "adopted"]});
    admit("v1alpha1", "UPDATE", &new, Some(&old)).await.unwrap();
}

#[tokio::test]
async fn given_an_object_that_is_being_deleted_then_its_finalizers_can_be_taken_away_whatever_its_spec() {
    let mut old = cloneset("v1beta1");
    old["spec"]["selector"] = json!({});
    old["metadata"]["finalizers"] = json!(["example.com/f"]);
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    let context = context();
    for (deleted, allowed) in [(false, false), (true, true)] {
        if deleted {
            old["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let text = review("v1beta1", "UPDATE", Some(&new), Some(&old));
        let request: Request<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(validate(&request, &context).await.allowed, allowed);
    }
    new["spec"]["replicas"] = json!(7);
    let text = review("v1beta1", "UPDATE", Some(&new), Some(&old));
    let request: Request<'_> = serde_json::from_str(&text).unwrap();
    assert!(!validate(&request, &context).await.allowed, "the spec has changed");
}

#[tokio::test]
async fn given_deletions_then_protected_ones_are_refused_and_unreadable_ones_pass() {
    let verdict = async |old: &Value| {
        let text = review("v1beta1", "DELETE", None, Some(old));
        let request: Request<'_> = serde_json::from_str(&text).unwrap();
        let verdict = validate(&request, &context()).await;
        (verdict.allowed, verdict.code)
    };
    let mut set = cloneset("v1beta1");
    assert_eq!(verdict(&set).await, (true, 200));
    set["metadata"]["labels"] = json!({"policy.kruise.io/delete-protection": "Cascading"});
    assert_eq!(verdict(&set).await, (false, 403));
    set["spec"]["replicas"] = json!("many");
    assert_eq!(verdict(&set).await, (true, 200));
}

#[tokio::test]
async fn given_a_protected_deletion_then_it_is_written_down_with_who_wanted_it() {
    let folder = tempfile::tempdir().unwrap();
    let context = context().with_audit_log(crate::AuditLog::open(folder.path()).unwrap());
    let mut set = cloneset("v1alpha1");
    for (protection, lines) in [("None", 0), ("Always", 1)] {
        set["metadata"]["labels"] = json!({"policy.kruise.io/delete-protection": protection});
        let text = review("v1alpha1", "DELETE", None, Some(&set));
        validate(&serde_json::from_str(&text).unwrap(), &context).await;
        let log = std::fs::read_to_string(folder.path().join("protection.log")).unwrap();
        assert_eq!(log.lines().count(), lines, "{log}");
        if lines > 0 {
            assert!(
                log.contains(r#""Kind":"CloneSet","Namespace":"ns","Name":"web""#),
                "{log}"
            );
        }
    }
}

#[tokio::test]
async fn given_other_operations_and_resources_then_they_pass() {
    let context = context();
    for request in [
        json!({"operation": "CONNECT", "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "clonesets"}}),
        json!({"operation": "CREATE", "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "daemonsets"}}),
        json!({"operation": "UPDATE", "subResource": "status",
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "clonesets"}}),
    ] {
        let text = request.to_string();
        let request: Request<'_> = serde_json::from_str(&text).unwrap();
        assert!(mutate(&request, &context).await.allowed && validate(&request, &context).await.allowed);
    }
}
