//! The examples of the docs are what they say: the API server takes them without a complaint, and they do their work.

use std::sync::Arc;
use std::{fs, path::PathBuf};

use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_examples_of_the_docs_then_they_work]
}

fn example(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
}

async fn given_the_examples_of_the_docs_then_they_work(stage: Arc<Stage>) {
    for file in ["uniteddeployment.yaml", "uniteddeployment-adaptive.yaml"] {
        let object: DynamicObject = serde_json::from_value(example(file)).unwrap();
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
            let objects = stage.objects(version, "UnitedDeployment");
            let taken = objects.patch(&object.name_any(), &dry, &Patch::Apply(&other)).await;
            taken.unwrap_or_else(|error| panic!("{file} as {version}: {error}"));
        }
        let replicas = object.data["spec"]["replicas"].clone();
        stage
            .status(
                &object.name_any(),
                json!({"replicas": replicas, "updatedReadyReplicas": replicas}),
            )
            .await;
    }
}
