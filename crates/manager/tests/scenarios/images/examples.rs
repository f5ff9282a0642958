//! The examples of the docs are what they say: the API server takes them without a complaint, and they do their work.

use std::sync::Arc;
use std::{fs, path::PathBuf};

use kruise_testkit::builders::{Fixture as _, pod};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, known, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_examples_of_the_docs_then_they_work]
}

fn example(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

async fn given_the_examples_of_the_docs_then_they_work(stage: Arc<Stage>) {
    let node = stage.node(0);
    known(&stage, std::slice::from_ref(&node)).await;
    let web = pod("web-0").image("nginx:1").label("app", "web");
    let web = web.readiness_gate("KruisePodReady").on_node(&node).build();
    stage.pods.create(&PostParams::default(), &web).await.unwrap();
    stage
        .until_pod("web-0", "it is ready", |pod| {
            let conditions = json!(pod.status)["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        })
        .await;
    for (file, expected) in [
        (
            "image-pull-job.yaml",
            json!({"message": "job has completed", "failed": 0}),
        ),
        ("image-pull-never.yaml", json!({"failed": 0})),
        (
            "image-list-pull-job.yaml",
            json!({"desired": 2, "completed": 2, "succeeded": 2}),
        ),
        ("container-recreate.yaml", json!({"phase": "Recreating"})),
    ] {
        let example = example(file);
        let kind = example["kind"].as_str().unwrap();
        let object: DynamicObject = serde_json::from_value(example.clone()).unwrap();
        // Unknown fields are mistakes here.
        let strict = PatchParams {
            field_manager: Some("examples".to_owned()),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        for version in ["v1alpha1", "v1beta1"] {
            let mut other = object.clone();
            other.types.as_mut().unwrap().api_version = format!("apps.kruise.io/{version}");
            let dry = PatchParams {
                dry_run: version == "v1alpha1",
                ..strict.clone()
            };
            let objects = stage.objects(version, kind);
            let taken = objects.patch(&object.name_any(), &dry, &Patch::Apply(&other)).await;
            taken.unwrap_or_else(|error| panic!("{file} as {version}: {error}"));
        }
        status(&stage, kind, &object.name_any(), &expected).await;
    }
}
