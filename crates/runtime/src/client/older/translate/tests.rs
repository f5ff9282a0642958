use kruise_api::names::group::APPS;
use serde_json::json;

use super::*;

fn kinds() -> OlderKinds {
    let kind = |kind: &str, plural: &str| OlderKind {
        group: APPS,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    OlderKinds(vec![
        kind("CloneSet", "clonesets"),
        kind("ContainerRecreateRequest", "containerrecreaterequests"),
        kind("NodeImage", "nodeimages"),
    ])
}

fn cloneset(version: &str) -> Value {
    let spec = if version == V1ALPHA1 {
        json!({"scaleStrategy": {"disablePVCReuse": true}, "updateStrategy": {"type": "InPlaceOnly", "partition": 1}})
    } else {
        json!({"scaleStrategy": {"enablePVCReuse": false},
               "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 1}}})
    };
    json!({"apiVersion": format!("{APPS}/{version}"), "kind": "CloneSet", "metadata": {"name": "web"}, "spec": spec})
}

fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

fn json(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn given_paths_then_only_those_of_older_kinds_change() {
    for (path, older) in [
        (
            "/apis/apps.kruise.io/v1beta1/clonesets",
            Some("/apis/apps.kruise.io/v1alpha1/clonesets"),
        ),
        (
            "/apis/apps.kruise.io/v1beta1/namespaces/n/clonesets/web/status",
            Some("/apis/apps.kruise.io/v1alpha1/namespaces/n/clonesets/web/status"),
        ),
        (
            "/apis/apps.kruise.io/v1beta1/nodeimages/node1",
            Some("/apis/apps.kruise.io/v1alpha1/nodeimages/node1"),
        ),
        ("/apis/apps.kruise.io/v1beta1/namespaces/n/statefulsets/web", None),
        ("/apis/apps.kruise.io/v1alpha1/clonesets", None),
        ("/apis/apps.kruise.io/v1beta1", None),
        ("/apis/policy.kruise.io/v1beta1/clonesets", None),
        ("/api/v1/namespaces/clonesets/pods", None),
        ("/version", None),
    ] {
        assert_eq!(kinds().at(path).map(|(_, path)| path).as_deref(), older, "{path}");
    }
}

#[test]
fn given_an_object_then_it_goes_down_and_comes_back_up() {
    let sent = kinds().request(&Method::POST, bytes(&cloneset(V1BETA1)));
    assert_eq!(json(&sent), cloneset(V1ALPHA1));
    assert_eq!(json(&kinds().answer(sent)), cloneset(V1BETA1));
}

#[test]
fn given_a_list_then_every_object_of_it_comes_up() {
    let list = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSetList", "metadata": {"resourceVersion": "7"},
                      "items": [cloneset(V1ALPHA1), cloneset(V1ALPHA1)]});
    let shown = json(&kinds().answer(bytes(&list)));
    assert_eq!(shown["items"], json!([cloneset(V1BETA1), cloneset(V1BETA1)]));
    assert_eq!(shown["metadata"], list["metadata"]);
}

#[test]
fn given_events_then_objects_come_up_and_the_type_stays_first() {
    let line = json!({"type": "MODIFIED", "object": cloneset(V1ALPHA1)}).to_string();
    let shown = kinds().event(line);
    let expected = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", cloneset(V1BETA1));
    assert_eq!(shown, expected);
    let expired = "{\"type\":\"ERROR\",\"object\":{\"apiVersion\":\"v1\",\"code\":410,\"kind\":\"Status\"}}";
    assert_eq!(kinds().event(expired.to_owned()), format!("{expired}\n"));
}

#[test]
fn given_references_then_they_name_the_version_that_is_there() {
    let owner = |version: &str, kind: &str| json!({"apiVersion": format!("{APPS}/{version}"), "kind": kind, "name": "web", "uid": "u"});
    for (newer, older) in [
        // A Pod, an event, a JSON patch.
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [owner(V1BETA1, "CloneSet"), owner(V1BETA1, "StatefulSet")]}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [owner(V1ALPHA1, "CloneSet"), owner(V1BETA1, "StatefulSet")]}}),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Event", "involvedObject": owner(V1BETA1, "CloneSet")}),
            json!({"apiVersion": "v1", "kind": "Event", "involvedObject": owner(V1ALPHA1, "CloneSet")}),
        ),
        (
            json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner(V1BETA1, "CloneSet")]}]),
            json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner(V1ALPHA1, "CloneSet")]}]),
        ),
    ] {
        assert_eq!(json(&kinds().request(&Method::PATCH, bytes(&newer))), older);
        assert_eq!(json(&kinds().request(&Method::POST, bytes(&newer))), older);
    }
}

/// What becomes of a patch of a status: what goes to the object, and what to the status.
fn patched(plural: &str, patch: &Value) -> (Value, Value) {
    let kinds = kinds();
    let path = format!("/apis/{APPS}/{V1BETA1}/namespaces/n/{plural}/one/status");
    let (kind, _) = kinds.at(&path).unwrap();
    let older = kinds.patch(kind, true, bytes(patch));
    let shown = |body: Option<Bytes>| body.map_or(Value::Null, |body| json(&body));
    (shown(older.of_object), shown(older.as_asked))
}

#[test]
fn given_a_patch_of_what_older_crds_have_as_annotations_then_the_object_takes_it() {
    let snapshot = json!([{"name": "main", "ready": true, "restartCount": 1, "containerID": "c://1"}]);
    let text = snapshot[0].to_string();
    let since = "2026-01-01T00:00:00Z";
    let grace = json!([{"type": "PreRecreateGrace", "status": "True", "lastTransitionTime": since}]);
    let (object, status) = patched(
        "containerrecreaterequests",
        &json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"containerStatusSnapshot": snapshot}}),
    );
    assert_eq!(status, Value::Null, "nothing is left for the status");
    assert_eq!(
        (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"]),
        (&json!("u"), &json!("7"))
    );
    let statuses = object["metadata"]["annotations"]["crr.apps.kruise.io/sync-container-statuses"].as_str();
    let statuses: Value = serde_json::from_str(statuses.unwrap()).unwrap();
    assert_eq!(statuses[0], serde_json::from_str::<Value>(&text).unwrap());

    let (object, status) = patched(
        "containerrecreaterequests",
        &json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"phase": "Recreating", "conditions": grace}}),
    );
    assert_eq!(
        object,
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"crr.apps.kruise.io/unready-acquired": since}}})
    );
    assert_eq!(
        status,
        json!({"metadata": {"uid": "u"}, "status": {"phase": "Recreating"}})
    );
}

#[test]
fn given_a_patch_of_what_both_versions_have_then_it_goes_as_it_is() {
    for (plural, patch) in [
        (
            "containerrecreaterequests",
            json!({"metadata": {"uid": "u"}, "status": {"phase": "Completed", "message": "m"}}),
        ),
        (
            "containerrecreaterequests",
            json!({"metadata": {"labels": {"crr.apps.kruise.io/active": null}}}),
        ),
        (
            "clonesets",
            json!({"status": {"replicas": 3, "conditions": [{"type": "FailedScale"}]}}),
        ),
        (
            "nodeimages",
            json!({"spec": {"images": {"nginx": null}}, "status": {"desired": 1}}),
        ),
    ] {
        assert_eq!(patched(plural, &patch), (Value::Null, patch));
    }
    let none = Bytes::from("[]");
    let kinds = kinds();
    assert_eq!(kinds.patch(&kinds.0[0], true, none.clone()).as_asked, Some(none));
}

#[test]
fn given_an_object_that_cannot_be_converted_then_its_spec_says_why() {
    let broken = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": "none"});
    let shown = json(&kinds().answer(bytes(&broken)));
    assert!(
        shown["spec"].as_str().is_some_and(|reason| reason.contains("metadata")),
        "{shown}"
    );
}

#[test]
fn given_what_is_none_of_ours_then_it_passes_unchanged() {
    for text in [
        "",
        "no JSON",
        "[]",
        "{}",
        "null",
        "{\"items\":[1,null]}",
        "{\"apiVersion\":\"v1\",\"kind\":\"Status\"}",
    ] {
        let body = Bytes::from(text);
        assert_eq!(kinds().answer(body.clone()), body, "{text}");
        assert_eq!(kinds().request(&Method::PUT, body.clone()), body, "{text}");
    }
    for line in ["", "[1]", "no JSON", "{\"type\":\"BOOKMARK\"}"] {
        assert_eq!(kinds().event(line.to_owned()), format!("{line}\n"));
    }
}
