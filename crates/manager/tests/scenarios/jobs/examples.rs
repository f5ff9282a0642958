//! The examples of the docs are what they say: the API server takes them without a complaint, and they do their work.

use std::sync::Arc;
use std::{fs, path::PathBuf};

use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, scenarios, status};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_examples_of_the_docs_then_they_work]
}

fn example(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
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
