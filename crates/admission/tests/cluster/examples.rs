//! The examples of the docs are what they say: a real API server takes each of them, and has nothing to complain about.

use std::{fs, path::PathBuf, time::Duration};

use kruise_testkit::eventually::{eventually, run_test};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::installation::{Installation, PATIENCE};

/// Every example of a CloneSet, with the name of its file. Those of other kinds are tried by the manager's scenarios, with what else is in their files.
fn examples() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let mut documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap();
        (name, documents.swap_remove(0))
    };
    let all = files.iter().map(read);
    all.filter(|(_, example): &(String, Value)| example["kind"] == "CloneSet")
        .collect()
}

#[test]
fn given_the_examples_of_the_docs_then_the_api_server_takes_them_in_either_version() {
    run_test(Duration::from_mins(2), async {
        let installation = Installation::new("examples").await;
        let manager = installation.start().await;
        let mut taken = 0;
        for (file, example) in examples() {
            let version = example["apiVersion"].as_str().unwrap().split_once('/').unwrap().1;
            let api = installation.objects(version, "CloneSet", "clonesets");
            let object: DynamicObject = serde_json::from_value(example.clone()).unwrap();
            // Unknown fields are mistakes here; and the API server learns of webhooks a moment after they are there.
            let created = eventually(PATIENCE, "it is created", || async {
                let strict = PatchParams {
                    field_manager: Some("examples".to_owned()),
                    field_validation: Some(kube::api::ValidationDirective::Strict),
                    ..PatchParams::default()
                };
                Ok(api.patch(&object.name_any(), &strict, &Patch::Apply(&object)).await?)
            })
            .await;
            assert_eq!(created.data["spec"]["revisionHistoryLimit"], 10, "{file}: completed");
            for other in ["v1alpha1", "v1beta1"] {
                let other_api = installation.objects(other, "CloneSet", "clonesets");
                let read = other_api.get(&object.name_any()).await.unwrap();
                assert_eq!(
                    read.data["spec"]["replicas"], example["spec"]["replicas"],
                    "{file} as {other}"
                );
            }
            taken += 1;
        }
        assert!(taken >= 10, "{taken}");

        // And what the docs say is refused is refused.
        let api = installation.objects("v1beta1", "CloneSet", "clonesets");
        let (_, mut example) = examples()
            .into_iter()
            .find(|(file, _)| file == "cloneset.yaml")
            .unwrap();
        example["metadata"]["name"] = json!("refused");
        example["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!("5");
        let refused: DynamicObject = serde_json::from_value(example).unwrap();
        let error = api.create(&PostParams::default(), &refused).await.unwrap_err();
        let told = "spec.updateStrategy.rollingUpdate.partition: Invalid value: \"5\"";
        assert!(error.to_string().contains(told), "{error}");
        manager.stop().await;
    });
}
