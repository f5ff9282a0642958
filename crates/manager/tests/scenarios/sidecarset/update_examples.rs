//! The examples of the docs are what they say: the API server takes them without a complaint, and the sets are looked after.

use std::sync::Arc;
use std::{fs, path::PathBuf};

use k8s_openapi::api::batch::v1::Job;
use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    Api, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, ValidationDirective,
    },
};
use serde_json::{Value, json};

use super::update_support::{names, sets};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_the_examples_of_updates_then_they_are_taken_and_looked_after,
        given_the_examples_of_injection_then_a_pod_gets_what_the_page_says,
    ]
}

fn example(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

async fn given_the_examples_of_updates_then_they_are_taken_and_looked_after(stage: Arc<Stage>) {
    for file in ["sidecarset-update.yaml", "sidecarset-hot-upgrade.yaml"] {
        let object: DynamicObject = serde_json::from_value(example(file)).unwrap();
        let name = object.name_any();
        for version in ["v1alpha1", "v1beta1"] {
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, "SidecarSet"));
            let sets: Api<DynamicObject> = Api::all_with(stage.client(), &kind);
            let mut other = object.clone();
            other.types.as_mut().unwrap().api_version = format!("apps.kruise.io/{version}");
            // Unknown fields are mistakes here.
            let strict = PatchParams {
                field_manager: Some("examples".to_owned()),
                field_validation: Some(ValidationDirective::Strict),
                dry_run: version == "v1alpha1",
                ..PatchParams::default()
            };
            let taken = sets.patch(&name, &strict, &Patch::Apply(&other)).await;
            taken.unwrap_or_else(|error| panic!("{file} as {version}: {error}"));
            if version == "v1alpha1" {
                continue;
            }
            eventually(PATIENCE, "it has a revision", || async {
                let status = sets.get(&name).await?.data["status"].clone();
                let has_revision = status["latestRevision"].is_string();
                has_revision
                    .then_some(())
                    .ok_or_else(|| NotYet::new(format!("{status}")))
            })
            .await;
            if file == "sidecarset-hot-upgrade.yaml" {
                let pod = serde_json::from_value(example("sidecarset-hot-upgrade-pod.yaml")).unwrap();
                let made = json!(stage.pods.create(&dry_run(), &pod).await.unwrap());
                let made = names(&made["spec"]["containers"]);
                assert_eq!(made, ["mesh-proxy-1", "mesh-proxy-2", "main"]);
            }
            sets.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    let jobs: Api<Job> = stage.api();
    let job: Job = serde_json::from_value(example("sidecar-terminator.yaml")).unwrap();
    let params = PostParams::default();
    jobs.create(&params, &job).await.unwrap();
}

async fn given_the_examples_of_injection_then_a_pod_gets_what_the_page_says(stage: Arc<Stage>) {
    let sets = sets(&stage, "v1beta1");
    for file in ["sidecarset.yaml", "sidecarset-canary.yaml"] {
        let set: DynamicObject = serde_json::from_value(example(file)).unwrap();
        let strict = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply("examples")
        };
        let taken = sets.patch(&set.name_any(), &strict, &Patch::Apply(&set)).await;
        taken.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    for (tier, image) in [(Value::Null, "busybox:1.36"), (json!("test"), "busybox:1.37")] {
        let mut pod = example("sidecarset-pod.yaml");
        let labels = json!({"metadata": {"labels": {"tier": tier}}});
        kruise_api::merge_patch::merge(&mut pod, &labels);
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        let made = eventually(PATIENCE, "it is injected", || async {
            let made = json!(stage.pods.create(&dry_run(), &pod).await?);
            let is_injected = made["spec"]["containers"][0]["image"] == image;
            is_injected
                .then_some(made.clone())
                .ok_or_else(|| NotYet::new(format!("{made}")))
        })
        .await;
        assert_eq!(names(&made["spec"]["containers"]), ["web-log", "main"]);
        if image == "busybox:1.36" {
            let log = &made["spec"]["containers"][0];
            assert_eq!(log["resources"]["limits"], json!({"cpu": "100m", "memory": "200Mi"}));
            assert_eq!(log["env"][1], json!({"name": "REGION", "value": "north"}));
        }
    }
    for name in ["web-log-canary", "web-log"] {
        sets.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
