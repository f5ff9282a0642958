//! What workloads ask for by annotations.

use super::*;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_annotations_then_one_is_made_follows_them_and_goes,
        given_no_topology_then_none_is_made,
        given_the_example_of_the_docs_then_it_works,
    ]
}

/// Annotations of a workload, by the ends of their keys.
pub(super) fn annotations(pairs: &Value) -> Value {
    let named = pairs.as_object().unwrap().iter();
    let named: serde_json::Map<String, Value> = named
        .map(|(key, value)| (format!("kruise.io/{key}"), value.clone()))
        .collect();
    json!({"metadata": {"annotations": named}})
}

async fn given_annotations_then_one_is_made_follows_them_and_goes(stage: Arc<Stage>) {
    let set = stage.create(web(1)).await;
    let wanted = json!({"auto-generate-persistent-pod-state": "true", "required-persistent-topology": ZONE});
    stage.patch("web", annotations(&wanted)).await;
    remembered(&stage, "web", "it is made and remembers", |states| {
        states.get("web-0").is_some()
    })
    .await;
    let made = states(&stage).get("web").await.unwrap();
    let owners = json!(made.metadata.owner_references);
    assert_eq!(
        (&owners[0]["uid"], &owners[0]["controller"]),
        (&json!(set.metadata.uid), &json!(true))
    );
    stage
        .patch(
            "web",
            annotations(&json!({"required-persistent-topology": null, "preferred-persistent-topology": HOST})),
        )
        .await;
    remembered(&stage, "web", "it follows", |states| {
        states["web-0"]["nodeTopologyLabels"].get(HOST).is_some()
    })
    .await;
    let spec = states(&stage).get("web").await.unwrap().data["spec"].clone();
    assert_eq!(
        spec["preferredPersistentTopology"],
        json!([{"weight": 100, "preference": {"keys": [HOST]}}])
    );
    assert_eq!(spec.get("requiredPersistentTopology"), None);
    stage
        .patch(
            "web",
            annotations(&json!({"auto-generate-persistent-pod-state": "false"})),
        )
        .await;
    eventually(PATIENCE, "it is gone", || async {
        match states(&stage).get_opt("web").await? {
            None => Ok(()),
            Some(object) => Err(NotYet::new(format!("{:#}", object.data))),
        }
    })
    .await;
}

async fn given_no_topology_then_none_is_made(stage: Arc<Stage>) {
    let auto = "kruise.io/auto-generate-persistent-pod-state";
    stage.create(web(1).annotation(auto, "true")).await;
    stage
        .create(
            statefulset("other")
                .replicas(1)
                .annotation(auto, "true")
                .annotation("kruise.io/required-persistent-topology", ZONE),
        )
        .await;
    remembered(&stage, "other", "another is made", |states| {
        states.get("other-0").is_some()
    })
    .await;
    assert!(states(&stage).get_opt("web").await.unwrap().is_none());
}

async fn given_the_example_of_the_docs_then_it_works(stage: Arc<Stage>) {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let text = std::fs::read_to_string(folder.join("persistentpodstate.yaml")).unwrap();
    let example: DynamicObject = serde_saphyr::from_str(&text).unwrap();
    let strict = PatchParams {
        field_manager: Some("examples".to_owned()),
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    states(&stage)
        .patch("web", &strict, &Patch::Apply(&example))
        .await
        .unwrap();
    stage.create(web(1)).await;
    remembered(&stage, "web", "it remembers", |states| states.get("web-0").is_some()).await;
}
