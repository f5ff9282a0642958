//! The records are the original's, byte for byte.

use super::*;
use proptest::prelude::*;

#[test]
fn given_records_of_the_original_then_they_are_written_back_as_they_were() {
    for recorded in [
        r#"{"revision":"demo-77659586d6","updateTimestamp":"2026-11-15T08:18:16Z","lastContainerStatuses":null,"containerBatchesRecord":[{"timestamp":"2026-11-15T08:18:16Z","containers":[]}]}"#,
        r#"{"revision":"demo-5ffd75c589","updateTimestamp":"2026-11-15T08:17:57Z","lastContainerStatuses":null,"updateEnvFromMetadata":true,"containerBatchesRecord":[{"timestamp":"2026-11-15T08:17:57Z","containers":["main"]}]}"#,
        r#"{"revision":"prio-654597fd49","updateTimestamp":"2026-11-15T08:13:57Z","lastContainerStatuses":{"high":{"imageID":"busybox@sha256:91"}},"updateImages":true,"nextContainerImages":{"low":"nginx:1.21"},"preCheckBeforeNext":{"containersRequiredReady":["high"]},"containerBatchesRecord":[{"timestamp":"2026-11-15T08:13:57Z","containers":["high"]}]}"#,
        r#"{"revision":"pre-7bc685bd97","updateTimestamp":"2026-11-15T08:16:05Z","lastContainerStatuses":null,"updateImages":true}"#,
        r#"{"revision":"demo-7c9f8","updateTimestamp":"2024-05-01T10:00:00Z","lastContainerStatuses":{"main":{"imageID":"example/app@sha256:aa"}},"updateEnvFromMetadata":true,"updateResources":true,"updateImages":true,"nextContainerImages":{"side":"example/side:2"},"nextContainerRefMetadata":{"side":{"creationTimestamp":null,"labels":{"k":"\u003cv\u003e"}}},"nextContainerResources":{"side":{"limits":{"cpu":"2"}}},"preCheckBeforeNext":{"containersRequiredReady":["main"]},"containerBatchesRecord":[{"timestamp":"2024-05-01T10:00:00Z","containers":["main"]}]}"#,
    ] {
        let read: State = serde_json::from_str(recorded).unwrap();
        assert_eq!(read.to_json(), recorded);
    }
    for recorded in [
        r#"{"revision":"pre-7bc685bd97","containerImages":{"main":"busybox:1.36","side":"busybox:1.37"},"graceSeconds":3}"#,
        r#"{"revision":"demo-7c9f8","containerImages":{"main":"example/app:2"},"containerRefMetadata":{"main":{"creationTimestamp":null,"labels":{"k":"v"}}},"containerResources":{"main":{"limits":{"cpu":"2"}}},"metaDataPatch":"e30=","updateEnvFromMetadata":true,"graceSeconds":10}"#,
    ] {
        let read: Grace = serde_json::from_str(recorded).unwrap();
        assert_eq!(read.to_json(), recorded);
        assert!(read.change().is_ok());
    }
}

#[test]
fn given_a_waiting_patch_then_it_is_understood_with_and_without_its_frame() {
    use base64::Engine as _;
    for patch in [r#"{"metadata":{"labels":{"a":null}}}"#, r#"{"labels":{"a":null}}"#] {
        let grace = Grace {
            meta_data_patch: base64::engine::general_purpose::STANDARD.encode(patch),
            ..Grace::default()
        };
        assert_eq!(
            Value::Object(grace.change().unwrap().metadata),
            json!({"labels": {"a": null}})
        );
    }
    for bad in ["%", "eA=="] {
        let grace = Grace {
            meta_data_patch: bad.into(),
            ..Grace::default()
        };
        assert!(grace.change().is_err());
    }
}

#[test]
fn given_keys_of_old_releases_then_they_are_read_when_the_new_ones_are_absent_and_removed_when_something_is_written() {
    let old = r#"{"revision":"demo-old","updateTimestamp":"2024-05-01T09:00:00Z","lastContainerStatuses":{}}"#;
    let pod = running_pod("p")
        .running("a", "a:1")
        .annotation("inplace-update-state", old)
        .annotation("inplace-update-grace", "");
    assert_eq!(state_of(&pod.typed()).unwrap().unwrap().revision, "demo-old");
    assert!(!is_complete(&pod.typed(), gates()), "an empty grace annotation blocks");
    let started = begin(&pod, &one_image(), &env("10:00:00"));
    let after = pod.patched(&started.requests);
    assert_eq!(annotation_of(&after, "inplace-update-state"), None);
    assert_eq!(annotation_of(&after, "inplace-update-grace"), None);
    assert_eq!(state_of(&after.typed()).unwrap().unwrap().revision, "demo-new");
    let both = after.annotation("inplace-update-state", "{");
    assert_eq!(state_of(&both.typed()).unwrap().unwrap().revision, "demo-new");
}

proptest! {
    #[test]
    fn given_any_annotation_then_no_panic(
        state in "[ -~]{0,40}|\\{\"revision\":\"[a-z]\",\"lastContainerStatuses\":(null|\\{\"a\":\\{\\}\\})\\}",
        grace in "|[ -~]{0,40}|\\{\"revision\":\"demo-x\",\"graceSeconds\":-?[0-9]{1,11}\\}",
        report in "[ -~]{0,40}|\\{\"containers\":\\[\\{\"name\":\"a\"\\}\\]\\}",
    ) {
        let pod = running_pod("p").at("demo-x").running("a", "a:1")
            .annotation(IN_PLACE_STATE, state).annotation(IN_PLACE_GRACE, grace)
            .annotation("apps.kruise.io/runtime-containers-meta", report);
        let _ = advanced(&pod, "10:00:00");
        let _ = is_complete(&pod.typed(), gates());
    }

    #[test]
    fn given_any_record_then_it_is_read_as_it_was_written(
        images in prop::collection::btree_map("[a-z]{1,4}", "[a-z<&]{0,5}", 0..4),
        flags in any::<(bool, bool, bool)>(),
        batches in prop::collection::vec(prop::collection::vec("[a-z]{1,3}", 0..3), 0..3),
    ) {
        let state = State {
            revision: "r".into(),
            update_timestamp: Some("2024-05-01T10:00:00Z".into()),
            last_container_statuses: flags.0.then(|| images.keys().map(|name| (name.clone(), LastStatus { image_id: "i".into() })).collect()),
            update_images: flags.1,
            update_resources: flags.2,
            next_container_images: Some(images).filter(|images| !images.is_empty()),
            container_batches_record: (!batches.is_empty()).then(|| batches.into_iter().map(|containers| Batch { timestamp: None, containers }).collect()),
            ..State::default()
        };
        prop_assert_eq!(serde_json::from_str::<State>(&state.to_json()).unwrap(), state);
    }
}
