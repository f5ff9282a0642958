//! Which SidecarSets apply to a new Pod, and in which revision.

use std::sync::Arc;

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Namespace};
use kruise_testkit::{
    builders::Fixture as _,
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::update_support::{LABEL, Set, image, injected, names, record, selected, sets, tried};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_selector_of_namespaces_then_labels_of_the_namespace_decide,
        given_a_namespace_in_v1alpha1_then_it_is_a_selector_and_pods_elsewhere_are_left_alone,
        given_a_canary_then_it_takes_the_place_of_its_base_until_it_is_paused,
        given_sets_that_come_to_overlap_then_the_first_by_name_is_injected_and_updated,
        given_a_custom_version_then_new_pods_get_that_revision_and_without_it_they_are_refused,
        given_a_part_of_the_pods_then_the_partition_says_who_gets_the_named_revision,
        given_resources_by_expression_then_they_follow_the_other_containers,
    ]
}

const HASH: &str = "kruise.io/sidecarset-hash";

fn log(image: &str) -> Value {
    json!([{"name": "log", "image": image}])
}

/// The image that a new Pod would have for container `log`; nothing without one.
async fn picture(stage: &Stage) -> Result<Option<String>, String> {
    let pod = tried(stage, selected(stage, "p0")).await?;
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let found = containers.iter().find(|container| container["name"] == "log");
    Ok(found.map(|container| container["image"].as_str().unwrap().to_owned()))
}

/// Waits until new Pods are judged as wanted.
async fn until(stage: &Stage, what: &str, wanted: impl Fn(&Result<Option<String>, String>) -> bool) {
    let wanted = &wanted;
    eventually(PATIENCE, what, || async move {
        let found = picture(stage).await;
        wanted(&found)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{found:?}")))
    })
    .await;
}

async fn given_a_selector_of_namespaces_then_labels_of_the_namespace_decide(stage: Arc<Stage>) {
    let chosen = json!({"matchLabels": {"team": stage.namespace()}});
    let set = Set::injecting(
        &stage,
        "",
        &json!({"spec": {"containers": log("log:1"), "namespaceSelector": chosen}}),
    )
    .await;
    assert_eq!(picture(&stage).await, Ok(None));
    let namespaces: Api<Namespace> = Api::all(stage.client());
    let label = async |value: Option<&str>| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": value}}}));
        let params = PatchParams::default();
        namespaces.patch(stage.namespace(), &params, &patch).await.unwrap();
    };
    label(Some(stage.namespace())).await;
    until(&stage, "the label counts", |found| matches!(found, Ok(Some(_)))).await;
    label(None).await;
    until(&stage, "the label is gone", |found| matches!(found, Ok(None))).await;
    set.delete().await;
}

async fn given_a_namespace_in_v1alpha1_then_it_is_a_selector_and_pods_elsewhere_are_left_alone(stage: Arc<Stage>) {
    let alpha = sets(&stage, "v1alpha1");
    for (ending, namespace, expected) in [("-here", stage.namespace(), Some("log:1")), ("-there", "default", None)] {
        let name = format!("{}{ending}", stage.namespace());
        let set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {LABEL: stage.namespace()}}, "namespace": namespace, "containers": log("log:1")}});
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        alpha.create(&PostParams::default(), &set).await.unwrap();
        for version in ["v1alpha1", "v1beta1"] {
            let spec = sets(&stage, version).get(&name).await.unwrap().data["spec"].clone();
            let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
            assert_eq!(
                (&spec["namespace"], &spec["namespaceSelector"]),
                (&Value::Null, &selector)
            );
        }
        until(&stage, "new Pods are judged by it", |found| {
            *found == Ok(expected.map(str::to_owned))
        })
        .await;
        alpha.delete(&name, &DeleteParams::default()).await.unwrap();
        until(&stage, "it is forgotten", |found| *found == Ok(None)).await;
    }
}

async fn given_a_canary_then_it_takes_the_place_of_its_base_until_it_is_paused(stage: Arc<Stage>) {
    let base = Set::injecting(&stage, "", &json!({"spec": {"containers": log("log:base")}})).await;
    let annotations = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": base.name});
    let selector = json!({"matchLabels": {LABEL: stage.namespace(), "canary": "yes"}});
    let mut canary = json!({"metadata": {"annotations": annotations},
        "spec": {"containers": log("log:canary"), "selector": selector, "updateStrategy": {"type": "NotUpdate"}}});
    let set = Set::injecting(&stage, "-canary", &canary).await;
    let list = |pod: &Value| pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"].clone();
    let pod = injected(&stage, selected(&stage, "p0").label("canary", "yes")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["log", "main"]);
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], list(&pod)),
        (&json!("log:canary"), json!(set.name))
    );
    let pod = injected(&stage, selected(&stage, "p1")).await;
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], list(&pod)),
        (&json!("log:base"), json!(base.name))
    );
    // The base can be changed while a canary has the same containers.
    base.image("log:base2").await;
    base.status(&json!({"matchedPods": 1, "updatedReadyPods": 1})).await;
    set.status(&json!({"matchedPods": 1})).await;
    set.patch(&json!({"spec": {"injectionStrategy": {"paused": true}}}))
        .await;
    set.status(&json!({})).await;
    let pod = tried(&stage, selected(&stage, "p2").label("canary", "yes"))
        .await
        .unwrap();
    assert_eq!(
        (&pod["spec"]["containers"][0]["image"], list(&pod)),
        (&json!("log:base2"), json!(base.name))
    );
    for (field, change, reason) in [
        ("/spec/updateStrategy", json!({"type": "RollingUpdate"}), "NotUpdate"),
        (
            "/metadata/annotations/apps.kruise.io~1sidecarset-base",
            json!("none"),
            "sidecarset-base",
        ),
    ] {
        let before = std::mem::replace(canary.pointer_mut(field).unwrap(), change);
        let refusal = Set::try_injecting(&stage, "-odd", &canary).await.err().unwrap();
        assert!(refusal.contains(reason), "{refusal}");
        *canary.pointer_mut(field).unwrap() = before;
    }
    set.delete().await;
    base.delete().await;
}

async fn given_sets_that_come_to_overlap_then_the_first_by_name_is_injected_and_updated(stage: Arc<Stage>) {
    // One that asks for a label of namespaces and one that asks for another count as apart, though a namespace can come to have both.
    let (asked, given) = (
        format!("one-{}", stage.namespace()),
        format!("other-{}", stage.namespace()),
    );
    let one = json!({"matchExpressions": [{"key": asked, "operator": "Exists"}]});
    let other = json!({"matchLabels": {&given: "yes"}});
    let in_namespaces = |selector: Value, image: &str| {
        let own = json!({"name": image.replace(':', "-"), "image": "own:1"});
        let containers = json!([log(image)[0], own]);
        json!({"spec": {"containers": containers, "namespaceSelector": selector}})
    };
    let one = Set::injecting(&stage, "-1", &in_namespaces(one, "log:1")).await;
    let other = Set::injecting(&stage, "-2", &in_namespaces(other, "log:2")).await;
    let namespaces: Api<Namespace> = Api::all(stage.client());
    let patch = Patch::Merge(json!({"metadata": {"labels": {asked: "", given: "yes"}}}));
    let params = PatchParams::default();
    namespaces.patch(stage.namespace(), &params, &patch).await.unwrap();
    eventually(PATIENCE, "both sets apply", || async {
        let pod = tried(&stage, selected(&stage, "p0")).await.map_err(NotYet::new)?;
        let names = names(&pod["spec"]["containers"]).join(" ");
        (names == "log log-1 log-2 main")
            .then_some(())
            .ok_or_else(|| NotYet::new(names))
    })
    .await;
    let pod = injected(&stage, selected(&stage, "p0")).await;
    assert_eq!(pod["spec"]["containers"][0]["image"], "log:1");
    let brought = |set: &Set<'_>| record(&pod, HASH, &set.name)["sidecarList"].clone();
    assert_eq!(
        (brought(&one), brought(&other)),
        (json!(["log", "log-1"]), json!(["log-2"]))
    );
    // The second set does not touch what it did not bring.
    let done = json!({"matchedPods": 1, "updatedReadyPods": 1});
    other.image("log:2b").await;
    other.status(&done).await;
    assert_eq!(image(&stage.pods.get("p0").await.unwrap(), "log"), "log:1");
    one.image("log:1b").await;
    one.status(&done).await;
    assert_eq!(image(&stage.pods.get("p0").await.unwrap(), "log"), "log:1b");
    other.delete().await;
    one.delete().await;
}

/// A set at its second version, of which the revision of the first is there.
async fn at_second_version(stage: &Stage, strategy: Value) -> (Set<'_>, String) {
    let more = json!({"spec": {"containers": log("log:1"), "customVersion": "v1", "updateStrategy": strategy}});
    let set = Set::injecting(stage, "", &more).await;
    let first = set.status(&json!({})).await["latestRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    set.patch(&json!({"spec": {"containers": log("log:2"), "customVersion": "v2"}}))
        .await;
    let latest = set.status(&json!({})).await["latestRevision"].clone();
    assert_ne!(latest, first);
    assert_eq!(picture(stage).await, Ok(Some("log:2".to_owned())));
    (set, first)
}

async fn given_a_custom_version_then_new_pods_get_that_revision_and_without_it_they_are_refused(stage: Arc<Stage>) {
    let (set, first) = at_second_version(&stage, json!({"type": "NotUpdate"})).await;
    let name = |revision: Value| json!({"spec": {"injectionStrategy": {"revision": revision}}});
    let refusal = set.try_patch(&name(json!({"customVersion": "v0"}))).await.unwrap_err();
    assert!(
        refusal.contains("spec.injectionStrategy.revision.customVersion"),
        "{refusal}"
    );
    set.patch(&name(json!({"customVersion": "v1"}))).await;
    until(&stage, "the first version counts", |found| {
        *found == Ok(Some("log:1".to_owned()))
    })
    .await;
    let pod = injected(&stage, selected(&stage, "made")).await;
    let revisions = set.revisions().await;
    let old = revisions.iter().find(|revision| revision.name_any() == first).unwrap();
    let said = record(&pod, HASH, &set.name);
    assert_eq!(
        (&said["hash"], &said["controllerRevision"]),
        (&json!(old.annotations()[HASH]), &json!(first))
    );
    set.patch(&name(json!({"customVersion": null, "revisionName": first})))
        .await;
    until(&stage, "its name counts, too", |found| {
        *found == Ok(Some("log:1".to_owned()))
    })
    .await;

    // Deleted by hand: the API server refuses Pods rather than let them pass without their sidecars.
    let api: Api<ControllerRevision> = stage.of_manager();
    api.delete(&first, &DeleteParams::default()).await.unwrap();
    until(&stage, "Pods are refused", |found| {
        found
            .as_ref()
            .is_err_and(|refusal| refusal.contains(&first) && refusal.contains(&set.name))
    })
    .await;
    set.patch(&name(Value::Null)).await;
    until(&stage, "Pods pass again", |found| {
        *found == Ok(Some("log:2".to_owned()))
    })
    .await;
    set.delete().await;
}

async fn given_a_part_of_the_pods_then_the_partition_says_who_gets_the_named_revision(stage: Arc<Stage>) {
    let (set, _) = at_second_version(&stage, json!({})).await;
    let strategy = |partition: Value| {
        let revision = json!({"customVersion": "v1", "policy": "Partial"});
        json!({"spec": {"updateStrategy": {"partition": partition}, "injectionStrategy": {"revision": revision}}})
    };
    for (partition, expected) in [(json!("100%"), "log:1"), (json!(5), "log:2"), (json!("0%"), "log:2")] {
        set.patch(&strategy(partition.clone())).await;
        set.status(&json!({})).await;
        for _ in 0..8 {
            assert_eq!(picture(&stage).await, Ok(Some(expected.to_owned())), "{partition}");
        }
    }
    // One that the update leaves out stays at the named revision.
    set.patch(&json!({"spec": {"updateStrategy": {"partition": 0, "selector": {"matchLabels": {"new": "yes"}}}}}))
        .await;
    set.status(&json!({})).await;
    assert_eq!(picture(&stage).await, Ok(Some("log:1".to_owned())));
    let pod = tried(&stage, selected(&stage, "p0").label("new", "yes")).await.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], "log:2");
    set.delete().await;
}

async fn given_resources_by_expression_then_they_follow_the_other_containers(stage: Arc<Stage>) {
    let side = |regex: &str| {
        let expressions =
            json!({"limits": {"cpu": "cpu*50%", "memory": "max(memory/4, 64Mi)"}, "requests": {"cpu": "cpu*50%"}});
        let policy =
            json!({"targetContainersMode": "sum", "targetContainersNameRegex": regex, "resourcesExpr": expressions});
        json!({"spec": {"containers": [{"name": "side", "image": "s:1", "podInjectPolicy": "AfterAppContainer", "resourcesPolicy": policy}]}})
    };
    let set = Set::injecting(&stage, "", &side(".*")).await;
    let pod = |limits: Value| {
        selected(&stage, "p0")
            .container("other", "o:1")
            .set(
                "/spec/containers/0/resources",
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "200m"}}),
            )
            .set("/spec/containers/1/resources", json!({ "limits": limits }))
    };
    let all = tried(&stage, pod(json!({"cpu": "500m", "memory": "1Gi"})))
        .await
        .unwrap();
    let resources = &all["spec"]["containers"][2]["resources"];
    // A request that is not said is the limit, by the API server, before webhooks are asked.
    let expected =
        json!({"limits": {"cpu": "750m", "memory": "512Mi"}, "requests": {"cpu": "350m", "memory": "512Mi"}});
    assert_eq!(*resources, expected);
    let unlimited = tried(&stage, pod(json!({"memory": "1Gi"}))).await.unwrap();
    let limits = &unlimited["spec"]["containers"][2]["resources"]["limits"];
    assert_eq!(*limits, json!({"memory": "512Mi"}));
    set.patch(&side("^nobody$")).await;
    set.status(&json!({})).await;
    let refusal = tried(&stage, pod(json!({}))).await.unwrap_err();
    assert!(refusal.contains("^nobody$") && refusal.contains(&set.name), "{refusal}");
    set.delete().await;
}
