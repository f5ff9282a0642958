use super::*;
use kruise_api::{
    cloneset::v1beta1::CloneSet, nodeimage::CachedNodeImage, pod::Pod,
    podunavailablebudget::v1beta1::PodUnavailableBudget, revision::ControllerRevision, sidecarset::v1beta1::SidecarSet,
};
use kruise_fixtures::{Fixture as _, cloneset, pod, running_pod};
use serde_json::{Value, json};

/// What must not be sent: it stands in every place where people put passwords.
const SECRET: &str = "hunter2";

fn set(spec: &Value, status: &Value) -> WorkloadView {
    let mut object = cloneset("web")
        .replicas(5)
        .set("/metadata/generation", 3)
        .set("/status", status);
    for (field, value) in spec.as_object().unwrap() {
        object = object.set(&format!("/spec/updateStrategy/rollingUpdate/{field}"), value);
    }
    WorkloadView::from(&object.typed::<CloneSet>())
}

fn counts(there: i32, updated: i32, expected: i32, ready: i32, available: i32) -> Value {
    json!({"observedGeneration": 3, "replicas": there, "updatedReplicas": updated, "expectedUpdatedReplicas": expected,
        "readyReplicas": ready, "availableReplicas": available})
}

#[test]
fn given_counts_then_the_state_is_what_matters_most_and_the_note_tells_all() {
    let plain = json!({});
    for (spec, status, label, note) in [
        (&plain, counts(5, 5, 5, 5, 5), "Ready", ""),
        (
            &plain,
            counts(5, 2, 5, 4, 4),
            "Updating",
            "2 of 5 are updated. 1 of 5 are not ready.",
        ),
        (&plain, counts(3, 3, 5, 3, 3), "Scaling", "There are 3, 5 are wanted."),
        (
            &plain,
            counts(5, 5, 5, 5, 4),
            "Not ready",
            "1 ready ones do not count as available yet.",
        ),
        (
            &json!({"partition": 3}),
            counts(5, 2, 2, 5, 5),
            "Held",
            "The partition keeps 3 Pods at the old revision.",
        ),
        (
            &json!({"paused": true}),
            counts(5, 2, 5, 5, 5),
            "Paused",
            "The rollout is paused; not updated: 3 Pods.",
        ),
        (
            &plain,
            json!({"observedGeneration": 2}),
            "Not seen yet",
            "The last change was not looked at yet.",
        ),
    ] {
        let view = set(spec, &status);
        assert_eq!(
            (view.state.label.as_str(), view.state.note.as_str()),
            (label, note),
            "{status}"
        );
    }
    let gone = cloneset("web").set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    assert_eq!(WorkloadView::from(&gone.typed::<CloneSet>()).state.label, "Deleting");
}

#[test]
fn given_pods_then_their_state_is_told_and_so_is_what_holds_them() {
    let typed = |pod: kruise_fixtures::PodBuilder| pod.typed::<Pod>();
    let state = |pod: kruise_fixtures::PodBuilder| {
        let view = PodView::new(&typed(pod), "web-new");
        (view.state, view.tone, view.updated)
    };
    let ready = || running_pod("web-a").running("main", "nginx:1").ready();
    assert_eq!(
        state(ready().at_revision("web-new")),
        ("Ready".into(), Tone::Good, true)
    );
    assert_eq!(state(ready().at_revision("new")), ("Ready".into(), Tone::Good, true));
    assert_eq!(
        state(ready().at_revision("web-old")),
        ("Ready".into(), Tone::Good, false)
    );
    assert!(!state(ready().at_revision("ew")).2, "only whole hashes count");
    assert_eq!(state(pod("web-a").phase("Failed")).0, "Failed");
    assert_eq!(state(pod("web-a").pending()).0, "Waits for a node");
    assert_eq!(state(pod("web-a").on_node("n").pending()).0, "Starting");
    assert_eq!(state(ready().deleting()).0, "Terminating");
    let updating = ready().condition("InPlaceUpdateReady", "False").unready();
    assert_eq!(state(updating), ("Updating in place".into(), Tone::Busy, false));
    let crashing = pod("web-a").image("nginx:1").on_node("n").phase("Running").set(
        "/status/containerStatuses",
        json!([{"name": "main", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": SECRET}}}]),
    );
    let view = PodView::new(&typed(crashing), "");
    assert_eq!(
        (view.state.as_str(), view.tone, view.restarts),
        ("CrashLoopBackOff", Tone::Bad, 7)
    );
    assert!(!sent(&view).contains(SECRET), "messages of containers are not read");
    let held = PodView::new(&typed(ready().state("PreparingDelete")), "");
    assert_eq!(held.hook, "waits for its hook before it is deleted");
    assert_eq!(
        PodView::new(&typed(ready().specified_delete()), "").hook,
        "is chosen to be deleted"
    );
}

#[test]
fn given_a_pod_with_sidecars_then_its_revision_is_that_of_the_set() {
    let record = json!({"log": {"hash": "h2", "sidecarSetName": "log", "controllerRevision": "log-2"}});
    let pod = running_pod("a")
        .annotation("kruise.io/sidecarset-hash", record.to_string())
        .typed::<Pod>();
    let seen = |hash: &str| {
        let view = sidecar_pod(&pod, "log", hash);
        (view.revision, view.updated)
    };
    assert_eq!(seen("h2"), ("log-2".to_owned(), true));
    assert_eq!(seen("h3"), ("log-2".to_owned(), false));
    assert!(!sidecar_pod(&pod, "other", "").updated);
}

fn revision(number: i64, template: &Value) -> ControllerRevision {
    let data = json!({"spec": {"template": template}});
    serde_json::from_value(json!({"metadata": {"name": format!("web-{number}")}, "revision": number, "data": data}))
        .unwrap()
}

#[test]
fn given_two_revisions_then_what_changed_is_told_and_only_what_may_be_seen_with_its_value() {
    let template = |image: &str, password: &str, order: bool| {
        let web = json!({"name": "web", "image": image, "args": ["--password", password], "command": [password],
            "env": [{"name": "PASSWORD", "value": password}, {"name": "SAME", "value": SECRET}],
            "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": password}]}}});
        let log = json!({"name": "log", "image": "log:1"});
        let containers = if order { json!([web, log]) } else { json!([log, web]) };
        json!({"metadata": {"labels": {"app": "web"}, "annotations": {"token": password}},
            "spec": {"containers": containers, "nodeSelector": {"disk": "ssd"}, "unheardOf": password,
                "volumes": [{"name": "v", "csi": {"volumeAttributes": {"key": password}}}]}})
    };
    let revisions = [
        revision(1, &template("nginx:1", SECRET, true)),
        revision(2, &template("nginx:2", "hunter2-new", false)),
    ];
    let views = history(&revisions, "web-2", "1");
    let names: Vec<_> = views
        .iter()
        .map(|view| (view.name.as_str(), view.is_update, view.is_current))
        .collect();
    assert_eq!(names, [("web-2", true, false), ("web-1", false, true)]);
    let told: Vec<_> = views[0]
        .changes
        .iter()
        .map(|change| (change.path.as_str(), change.hidden))
        .collect();
    assert_eq!(
        told,
        [
            ("annotations[token]", true),
            ("containers[web].args", true),
            ("containers[web].command", true),
            ("containers[web].env[PASSWORD]", true),
            ("containers[web].image", false),
            ("containers[web].livenessProbe", true),
            ("unheardOf", true),
            ("volumes[v]", true),
        ]
    );
    let image = &views[0].changes[4];
    assert_eq!(
        (image.from.as_deref(), image.to.as_deref(), image.what),
        (Some("nginx:1"), Some("nginx:2"), "changed")
    );
    assert!(views[1].changes.is_empty());
    assert!(!sent(&views).contains(SECRET), "{}", sent(&views));
}

#[test]
fn given_containers_of_a_sidecarset_then_their_changes_are_told_as_well() {
    let of = |number: i64, image: &str| -> ControllerRevision {
        let data =
            json!({"spec": {"containers": [{"name": "log", "image": image, "env": [{"name": "K", "value": image}]}]}});
        serde_json::from_value(json!({"metadata": {"name": format!("log-{number}")}, "revision": number, "data": data}))
            .unwrap()
    };
    let views = history(&[of(2, "b"), of(1, "a")], "log-2", "");
    let paths: Vec<_> = views[0].changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["containers[log].env[K]", "containers[log].image"]);
    assert!(
        history(&[revision(1, &Value::Null)], "", "")[0].changes.is_empty(),
        "anything is read"
    );
}

#[test]
fn given_many_changes_then_the_rest_is_counted() {
    let labels = |value: &str| -> Value { (0..150).map(|n| (format!("l{n}"), json!(value))).collect() };
    let revisions = ["a", "b"].map(|value| json!({"metadata": {"labels": labels(value)}}));
    let views = history(&[revision(1, &revisions[0]), revision(2, &revisions[1])], "", "");
    assert_eq!((views[0].changes.len(), views[0].more), (100, 50));
}

#[test]
fn given_a_budget_then_its_note_says_what_is_left() {
    let view = |status: &Value| {
        let budget = json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "b", "namespace": "shop"},
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}, "maxUnavailable": "20%"}, "status": status});
        serde_json::from_value::<PodUnavailableBudget>(budget).unwrap()
    };
    let counts = |allowed: i32, current: i32| json!({"unavailableAllowed": allowed, "currentAvailable": current, "desiredAvailable": 4, "totalReplicas": 5});
    let one = BudgetView::from(&view(&counts(1, 5)));
    assert_eq!(
        (one.protects.as_str(), one.rule.as_str()),
        ("CloneSet web", "maxUnavailable 20%")
    );
    assert_eq!(
        (one.note.as_str(), one.tone),
        ("1 more may become unavailable.", Tone::Good)
    );
    assert_eq!(BudgetView::from(&view(&counts(0, 4))).tone, Tone::Held);
    assert_eq!(
        BudgetView::from(&view(&counts(0, 3))).note,
        "1 too few are available; nothing more is let through."
    );
    let budget = view(&counts(0, 3));
    let protects = |kind, name| BudgetView::protects(&budget, kind, "apps.kruise.io", name, None);
    assert!(protects("CloneSet", "web") && !protects("CloneSet", "web2") && !protects("StatefulSet", "web"));
}

#[test]
fn given_a_node_then_each_image_tells_how_far_it_is() {
    let node = json!({"metadata": {"name": "n1"},
        "spec": {"images": {"nginx": {"pullSecrets": [{"namespace": "a", "name": SECRET}], "tags": [{"tag": "1", "version": 0}, {"tag": "2", "version": 1}]}}},
        "status": {"desired": 2, "succeeded": 0, "pulling": 1, "imageStatuses": {"nginx": {"tags": [
            {"tag": "1", "phase": "Pulling", "progress": 40, "version": 0}, {"tag": "2", "phase": "Succeeded", "version": 0}]}}}});
    let view = NodeView::from(&serde_json::from_value::<CachedNodeImage>(node).unwrap());
    let told: Vec<_> = view
        .images
        .iter()
        .map(|pull| (pull.image.as_str(), pull.phase.as_str(), pull.progress))
        .collect();
    assert_eq!(
        told,
        [("nginx:1", "Pulling", 40), ("nginx:2", "Waiting", 0)],
        "an older answer does not count"
    );
    assert!(!sent(&view).contains(SECRET));
}

#[test]
fn given_secrets_everywhere_then_none_is_sent() {
    let web = cloneset("web").pod(|pod| {
        pod.container("main", "nginx:1")
            .env(json!({"name": "PASSWORD", "value": SECRET}))
            .annotation("note", SECRET)
    });
    let web = web
        .annotation("kubectl.kubernetes.io/last-applied-configuration", SECRET)
        .set("/spec/template/spec/containers/0/args", json!([SECRET]))
        .set(
            "/spec/template/spec/containers/0/envFrom",
            json!([{"secretRef": {"name": SECRET}}]),
        )
        .set("/spec/volumeClaimTemplates", json!([{"metadata": {"name": SECRET}}]))
        .set("/status", counts(1, 1, 1, 1, 1));
    let view = WorkloadView::from(&web.typed::<CloneSet>());
    assert_eq!(view.details.images[0].image, "nginx:1");
    let pod = running_pod("a")
        .container("main", "nginx:1")
        .env(json!({"name": "PASSWORD", "value": SECRET}))
        .annotation("apps.kruise.io/x", SECRET)
        .set("/status/message", SECRET)
        .typed::<Pod>();
    let sidecars: SidecarSet = serde_json::from_value(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "log", "annotations": {"a": SECRET}},
        "spec": {"containers": [{"name": "log", "image": "log:1", "env": [{"name": "K", "value": SECRET}]}]}}))
    .unwrap();
    let sidecars = WorkloadView::from(&sidecars);
    for text in [
        sent(&view),
        sent(&view.details),
        sent(&PodView::new(&pod, "")),
        sent(&sidecars),
        sent(&sidecars.details),
    ] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// The fields that are sent of each object, so that a new one is thought about.
#[test]
fn given_the_views_then_these_fields_are_sent_and_no_others() {
    let keys = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let web = WorkloadView::from(&cloneset("web").typed::<CloneSet>());
    assert_eq!(
        keys(json!(web)),
        "available created expected kind name namespace ready state there unit updated wanted"
    );
    assert_eq!(
        keys(json!(web.details)),
        "conditions currentRevision images strategy updateRevision"
    );
    let pod = running_pod("a")
        .container("main", "nginx:1")
        .state("Updating")
        .typed::<Pod>();
    let pod = json!(PodView::new(&pod, ""));
    assert_eq!(
        keys(pod.clone()),
        "containers created hook name namespace node restarts revision state tone updated"
    );
    assert_eq!(keys(pod["containers"][0].clone()), "image name ready");
    let view = &history(&[revision(1, &json!({}))], "", "")[0];
    assert_eq!(keys(json!(view)), "changes created isCurrent isUpdate more name number");
}

fn sent(view: &impl serde::Serialize) -> String {
    serde_json::to_string(view).unwrap()
}
