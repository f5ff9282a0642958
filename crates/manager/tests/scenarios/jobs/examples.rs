//! The examples of the docs are what they say: the API server takes them without a complaint, and they do their work.

use std::sync::Arc;
use std::{fs, path::PathBuf};

use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, ephemeral, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_the_examples_of_the_docs_then_they_work,
        given_the_example_of_ephemeral_jobs_then_it_works,
    ]
}

fn example(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

/// Unknown fields are mistakes here.
fn strict() -> PatchParams {
    PatchParams {
        field_manager: Some("examples".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    }
}

async fn given_the_example_of_ephemeral_jobs_then_it_works(stage: Arc<Stage>) {
    let example = example("ephemeraljob.yaml");
    let container = &example["spec"]["template"]["ephemeralContainers"][0];
    let script = json!({"sim.kruise.test/exit-after.look": "0s"});
    assert_eq!(container["name"], "look");
    ephemeral::pod(&stage, "web-0", &example["spec"]["selector"]["matchLabels"], &script).await;
    let object: DynamicObject = serde_json::from_value(example.clone()).unwrap();
    let jobs = stage.objects("v1alpha1", "EphemeralJob");
    let name = object.name_any();
    jobs.patch(&name, &strict(), &Patch::Apply(&object)).await.unwrap();
    status(
        &stage,
        "EphemeralJob",
        &name,
        &json!({"phase": "Succeeded", "match": 1, "succeeded": 1}),
    )
    .await;
}

async fn given_the_examples_of_the_docs_then_they_work(stage: Arc<Stage>) {
    // All nodes of the target are theirs; others come and go meanwhile.
    for (file, expected) in [
        ("broadcastjob.yaml", json!({"phase": "running"})),
        ("broadcastjob-never.yaml", json!({"phase": "running"})),
        ("advancedcronjob.yaml", json!({"type": "BroadcastJob"})),
        ("advancedcronjob-job.yaml", json!({"type": "Job"})),
    ] {
        let example = example(file);
        let kind = example["kind"].as_str().unwrap();
        let object: DynamicObject = serde_json::from_value(example.clone()).unwrap();
        let strict = strict();
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
