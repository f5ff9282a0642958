//! What is written for users, and what is refused.

use std::{fs, path::PathBuf, sync::Arc};

use kruise_testkit::builders::Fixture as _;
use kube::{
    ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, kubectl, parallel, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_small_set_then_defaults_are_written,
        given_bad_input_then_it_is_refused_with_its_field,
        given_an_older_writer_then_newer_fields_are_lost_with_a_warning,
        given_the_examples_of_the_docs_then_the_api_server_takes_them,
    ]
}

async fn given_a_small_set_then_defaults_are_written(stage: Arc<Stage>) {
    let set = stage.create(web(0)).await;
    let spec = &set.data["spec"];
    assert_eq!(
        (&spec["podManagementPolicy"], &spec["revisionHistoryLimit"]),
        (&json!("OrderedReady"), &json!(10))
    );
    let rolling = json!({"maxUnavailable": 1, "minReadySeconds": 0, "partition": 0, "podUpdatePolicy": "ReCreate"});
    assert_eq!(
        spec["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
    );
}

async fn given_bad_input_then_it_is_refused_with_its_field(stage: Arc<Stage>) {
    let rules = "/spec/updateStrategy/rollingUpdate";
    for (what, set, field) in [
        (
            "a reversed range",
            parallel(1).set("/spec/reserveOrdinals", json!(["5-3"])),
            "reserve ordinal",
        ),
        (
            "a number as text",
            parallel(1).set("/spec/reserveOrdinals", json!(["3"])),
            "reserve ordinal",
        ),
        (
            "a negative ordinal",
            parallel(1).set("/spec/reserveOrdinals", json!([-1])),
            "reserve ordinal",
        ),
        (
            "unordered and ordered",
            web(1).set(&format!("{rules}/unorderedUpdate"), json!({})),
            "unorderedUpdate",
        ),
        (
            "too many at once",
            web(1).set(&format!("{rules}/maxUnavailable"), "100%"),
            "maxUnavailable",
        ),
    ] {
        let refused = stage.try_create(set).await.unwrap_err().to_string();
        assert!(refused.contains(field), "{what}: {refused}");
    }
    stage
        .create(web(0).set(&format!("{rules}/podUpdatePolicy"), "InPlaceOnly"))
        .await;
    let container = json!({"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let refused = stage.try_patch("web", change).await.unwrap_err().to_string();
    assert!(refused.contains("spec.template"), "{refused}");
    let refused = stage
        .try_patch("web", json!({"spec": {"serviceName": "other"}}))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("forbidden"), "{refused}");
}

async fn given_an_older_writer_then_newer_fields_are_lost_with_a_warning(stage: Arc<Stage>) {
    stage.create(parallel(0).set("/spec/reserveOrdinals", json!([1]))).await;
    let change = r#"{"spec": {"revisionHistoryLimit": 5}}"#;
    let older = [
        "patch",
        "statefulsets.v1alpha1.apps.kruise.io",
        "web",
        "--type=merge",
        "--patch",
        change,
    ];
    let said = kubectl(&stage, &older).await;
    assert!(said.contains("Warning: spec.reserveOrdinals: erased"), "{said}");
    let set = stage.subjects.get("web").await.unwrap();
    let spec = &set.data["spec"];
    assert_eq!(
        (spec.get("reserveOrdinals"), &spec["revisionHistoryLimit"]),
        (None, &json!(5))
    );
    let change = change.replace('5', "6");
    let said = kubectl(&stage, &[&older[..5], &[&change]].concat()).await;
    assert!(!said.contains("Warning"), "there is nothing more to lose: {said}");
}

async fn given_the_examples_of_the_docs_then_the_api_server_takes_them(stage: Arc<Stage>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut taken = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        // What else is in a file of another kind is tried with it.
        let mut documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&file).unwrap()).unwrap();
        let example = documents.swap_remove(0);
        if example["kind"] != "StatefulSet" || example["apiVersion"] == "apps/v1" {
            continue;
        }
        let object: DynamicObject = serde_json::from_value(example).unwrap();
        // Unknown fields are mistakes here. Nothing is stored, as two examples have the same name.
        let strict = PatchParams {
            dry_run: true,
            field_manager: Some("examples".to_owned()),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let patch = Patch::Apply(&object);
        let applied = stage.subjects.patch(&object.name_any(), &strict, &patch).await.unwrap();
        assert_eq!(
            applied.data["spec"]["revisionHistoryLimit"],
            10,
            "{}: completed",
            file.display()
        );
        taken += 1;
    }
    assert_eq!(taken, 3);
}
