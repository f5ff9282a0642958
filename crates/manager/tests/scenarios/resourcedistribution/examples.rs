//! The examples of the docs are what they say: the API server takes them without a complaint, and they do their work.

use std::{fs, path::PathBuf};

use kube::api::ValidationDirective;

use super::{
    Api, Arc, ConfigMap, DeleteParams, DynamicObject, PATIENCE, Patch, PatchParams, Scenario, Stage, distributions,
    eventually, fresh, scenarios,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_examples_of_the_docs_then_they_work]
}

async fn given_the_examples_of_the_docs_then_they_work(stage: Arc<Stage>) {
    let labelled = fresh(&stage, &[("team", "a")]).await;
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    for (file, count) in [
        ("resourcedistribution.yaml", None),
        ("resourcedistribution-all.yaml", Some("config")),
    ] {
        let example: DynamicObject = serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap();
        let strict = PatchParams {
            field_manager: Some("examples".to_owned()),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let name = example.metadata.name.clone().unwrap();
        let all = distributions(&stage, "v1beta1");
        all.patch(&name, &strict, &Patch::Apply(&example))
            .await
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        match count {
            None => {
                let secrets: Api<k8s_openapi::api::core::v1::Secret> = labelled.api();
                eventually(PATIENCE, "the Secret is there", || async {
                    Ok(secrets.get("registry-cred").await?)
                })
                .await;
            }
            Some(map) => {
                let maps: Api<ConfigMap> = labelled.api();
                eventually(PATIENCE, "the ConfigMap is there", || async {
                    Ok(maps.get(map).await?)
                })
                .await;
            }
        }
        all.delete(&name, &DeleteParams::background()).await.unwrap();
    }
}
