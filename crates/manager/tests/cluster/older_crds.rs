//! Our manager where the CRDs are those of OpenKruise 1.8, which has most kinds as v1alpha1 only.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{Event, Node, Pod},
};
use kruise_testkit::{
    builders::{Fixture as _, cloneset, pod},
    cluster::TestControlPlane,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    chart::Kinds,
    world::{PATIENCE, World},
};

const V1ALPHA1: &str = "apps.kruise.io/v1alpha1";

#[test]
fn given_crds_of_the_original_then_workloads_and_images_are_looked_after_in_the_older_version() {
    run_test(Duration::from_mins(10), async {
        // Its own, as CRDs belong to the whole cluster.
        let control_plane = TestControlPlane::of_its_own().await.unwrap();
        let world = World::knowing(Kinds::Older, &control_plane.kubeconfig(), "older-crds").await;
        let newer = world.objects("v1beta1", "CloneSet").list(&ListParams::default()).await;
        assert!(matches!(newer, Err(kube::Error::Api(status)) if status.code == 404));
        let replica = world.start_with(&Faults::new(1), &["--feature-gates=ImagePullJobGate=true"]);
        world.publish(&replica).await;
        replica.leads().await;

        a_cloneset_is_made(&world).await;
        its_image_changes_as_far_as_the_partition_allows(&world).await;
        it_is_scaled_to(&world, 4).await;
        it_is_told_about(&world).await;
        a_node_gets_its_images(&world).await;
        a_container_is_recreated(&world).await;
        world.stop(replica).await;

        // The next one goes on with what it finds.
        let replica = world.ready(&Faults::new(2)).await;
        replica.leads().await;
        it_is_scaled_to(&world, 1).await;
        world.stop(replica).await;
        drop(world);
        drop(control_plane);
    });
}

async fn a_cloneset_is_made(world: &World) {
    let web = cloneset("web")
        .set("/apiVersion", V1ALPHA1)
        .set(
            "/spec/updateStrategy",
            json!({"type": "InPlaceIfPossible", "partition": 1, "maxUnavailable": 2}),
        )
        .replicas(2)
        .image("nginx:1.25");
    let sets = world.objects("v1alpha1", "CloneSet");
    let web = serde_json::from_value(web.json()).unwrap();
    sets.create(&PostParams::default(), &web).await.unwrap();
    status_is(
        &sets,
        json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}),
    )
    .await;
    owned(&world.work.api::<Pod>()).await;
    owned(&world.work.api::<ControllerRevision>()).await;
}

/// The partition has another place in v1beta1.
async fn its_image_changes_as_far_as_the_partition_allows(world: &World) {
    let sets = world.objects("v1alpha1", "CloneSet");
    let template = cloneset("web").image("nginx:1.26").json()["spec"]["template"].clone();
    let change = json!({"spec": {"template": template}});
    let merge = Patch::Merge(&change);
    sets.patch("web", &PatchParams::default(), &merge).await.unwrap();
    status_is(
        &sets,
        json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "expectedUpdatedReplicas": 1}),
    )
    .await;
    let expected = BTreeMap::from([("nginx:1.25".to_owned(), 1), ("nginx:1.26".to_owned(), 1)]);
    assert_eq!(pods(world).await, expected);
}

async fn it_is_scaled_to(world: &World, replicas: u32) {
    let sets = world.objects("v1alpha1", "CloneSet");
    let change = json!({"spec": {"replicas": replicas}});
    let merge = Patch::Merge(&change);
    let web = sets.patch("web", &PatchParams::default(), &merge).await.unwrap();
    status_is(
        &sets,
        json!({"observedGeneration": web.metadata.generation, "replicas": replicas}),
    )
    .await;
    owned(&world.work.api::<Pod>()).await;
}

async fn it_is_told_about(world: &World) {
    eventually(PATIENCE, "events name the version that is there", || async {
        let told = world.work.api::<Event>().list(&ListParams::default()).await?.items;
        let about = told
            .into_iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("CloneSet"));
        let versions: Vec<_> = about
            .map(|event| event.involved_object.api_version.unwrap_or_default())
            .collect();
        let fine = !versions.is_empty() && versions.iter().all(|version| version == V1ALPHA1);
        fine.then_some(()).ok_or_else(|| NotYet::new(format!("{versions:?}")))
    })
    .await;
}

/// A NodeImage is made, and a job puts an image into it.
async fn a_node_gets_its_images(world: &World) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "older"},
                      "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let nodes: Api<Node> = Api::all(world.client.clone());
    let created = nodes
        .create(&PostParams::default(), &serde_json::from_value(node.clone()).unwrap())
        .await
        .unwrap();
    let ready = json!({"status": node["status"]});
    nodes
        .patch_status(&created.name_any(), &PatchParams::default(), &Patch::Strategic(&ready))
        .await
        .unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "NodeImage"));
    let images: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    // A job that finds none is complete at once.
    eventually(PATIENCE, "there is a NodeImage", || async {
        images.get("older").await.map_err(NotYet::from)
    })
    .await;
    let job = json!({"apiVersion": V1ALPHA1, "kind": "ImagePullJob", "metadata": {"name": "pull"},
                     "spec": {"image": "nginx:1.26", "completionPolicy": {"type": "Always"}}});
    let jobs = world.objects("v1alpha1", "ImagePullJob");
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap())
        .await
        .unwrap();
    let image = eventually(PATIENCE, "the node has the image to pull", || async {
        let image = images.get("older").await?;
        let tag = &image.data["spec"]["images"]["nginx"]["tags"][0]["tag"];
        (tag == "1.26")
            .then_some(image.clone())
            .ok_or_else(|| NotYet::new(image.data.to_string()))
    })
    .await;
    let job = &image.data["spec"]["images"]["nginx"]["tags"][0]["ownerReferences"][0];
    assert_eq!(
        (&job["apiVersion"], &job["kind"]),
        (&json!(V1ALPHA1), &json!("ImagePullJob"))
    );
    eventually(PATIENCE, "the job counts the node", || async {
        let status = jobs.get("pull").await?.data["status"].clone();
        (status["desired"] == 1 && status["active"] == 1)
            .then_some(())
            .ok_or_else(|| NotYet::new(status.to_string()))
    })
    .await;
}

/// What the manager tells the daemon stands in annotations there. Without it the daemon would never begin, and the request never end.
async fn a_container_is_recreated(world: &World) {
    let pods = world.work.api::<Pod>();
    let web = pod("web")
        .image("nginx:1.25")
        .readiness_gate("KruisePodReady")
        .on_node("older");
    pods.create(&PostParams::default(), &web.build()).await.unwrap();
    let running = |id: &str, started: &str| {
        json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "main", "image": "nginx:1.25", "imageID": "i", "containerID": id, "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }]}})
    };
    let report = async |status: &Value| {
        let merge = Patch::Merge(status);
        pods.patch_status("web", &PatchParams::default(), &merge).await.unwrap();
    };
    report(&running("containerd://1", "2026-01-01T00:00:00Z")).await;
    let request = json!({"apiVersion": V1ALPHA1, "kind": "ContainerRecreateRequest", "metadata": {"name": "again"},
                         "spec": {"podName": "web", "containers": [{"name": "main"}], "strategy": {"unreadyGracePeriodSeconds": 1}}});
    let requests = world.objects("v1alpha1", "ContainerRecreateRequest");
    let request = serde_json::from_value(request).unwrap();
    eventually(PATIENCE, "the manager knows the Pod", || async {
        let made = requests.create(&PostParams::default(), &request).await;
        made.map(drop).map_err(NotYet::from)
    })
    .await;
    let say = async |status: Value| {
        let change = json!({ "status": status });
        let merge = Patch::Merge(&change);
        requests
            .patch_status("again", &PatchParams::default(), &merge)
            .await
            .unwrap();
    };
    let told = async |name: &str| {
        eventually(PATIENCE, name, || async {
            let annotations = requests.get("again").await?.annotations().clone();
            let told = annotations.get(name).cloned();
            told.ok_or_else(|| NotYet::new(format!("{annotations:?}")))
        })
        .await
    };
    let is_ready = async |expected: &str| {
        eventually(PATIENCE, "the Pod is held and let go", || async {
            let conditions = json!(pods.get("web").await?.status)["conditions"].clone();
            let ours = conditions
                .as_array()
                .into_iter()
                .flatten()
                .find(|each| each["type"] == "KruisePodReady");
            let status = ours.map(|ours| ours["status"].clone()).unwrap_or_default();
            (status == expected)
                .then_some(())
                .ok_or_else(|| NotYet::new(conditions.to_string()))
        })
        .await;
    };
    say(json!({"phase": "Recreating", "containerRecreateStates": [{"name": "main", "phase": "Pending"}]})).await;
    let since = told("crr.apps.kruise.io/unready-acquired").await;
    assert!(since.ends_with('Z'), "{since}");
    is_ready("False").await;
    report(&running("containerd://2", "2099-01-01T00:00:00Z")).await;
    let seen = told("crr.apps.kruise.io/sync-container-statuses").await;
    assert!(seen.contains("containerd://2"), "{seen}");
    say(json!({"phase": "Completed", "completionTime": "2099-01-01T00:00:00Z"})).await;
    is_ready("True").await;
    eventually(PATIENCE, "it is out of the daemon's sight", || async {
        let labels = requests.get("again").await?.labels().clone();
        let is_active = labels.contains_key("crr.apps.kruise.io/active");
        (!is_active)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{labels:?}")))
    })
    .await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("web", &at_once).await.unwrap();
}

/// Waits until the status of the CloneSet has these fields.
async fn status_is(sets: &Api<DynamicObject>, expected: Value) {
    eventually(PATIENCE, "its status tells", || async {
        let status = sets.get("web").await?.data["status"].clone();
        let fine = expected
            .as_object()
            .unwrap()
            .iter()
            .all(|(field, value)| status[field] == *value);
        fine.then_some(()).ok_or_else(|| NotYet::new(status.to_string()))
    })
    .await;
}

/// Everything here belongs to the CloneSet in the version that the server knows.
async fn owned<K>(api: &Api<K>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let found = api.list(&ListParams::default()).await.unwrap().items;
    assert_ne!(found.len(), 0);
    for each in found {
        let [owner] = each.owner_references() else {
            panic!("{}: {:?}", each.name_any(), each.owner_references());
        };
        assert_eq!(
            (owner.api_version.as_str(), owner.kind.as_str()),
            (V1ALPHA1, "CloneSet")
        );
    }
}

/// How many Pods have which image.
async fn pods(world: &World) -> BTreeMap<String, usize> {
    let mut images = BTreeMap::new();
    for pod in world.work.api::<Pod>().list(&ListParams::default()).await.unwrap() {
        let image = pod.spec.unwrap().containers.remove(0).image.unwrap();
        *images.entry(image).or_default() += 1;
    }
    images
}
