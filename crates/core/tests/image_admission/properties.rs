//! Whatever comes, nothing panics, and what was completed once is complete.

use super::defaults::completed;
use kruise_api::read::from_value;
use kruise_core::containerrecreaterequest::admit::{Submitted, Target, check, default_object};
use kruise_core::{imagelistpulljob, imagepulljob, nodeimage};
use proptest::prelude::*;
use serde_json::{Value, json};

/// JSON with the names that rules look for, in odd places.
fn odd() -> impl Strategy<Value = Value> {
    let names = [
        "image",
        "images",
        "tags",
        "tag",
        "selector",
        "names",
        "podSelector",
        "matchLabels",
        "parallelism",
        "pullPolicy",
        "completionPolicy",
        "type",
        "createdAt",
        "metadata",
        "labels",
        "containers",
        "name",
        "strategy",
        "status",
        "containerStatuses",
        "lifecycle",
        "preStop",
        "a",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", "NGINX", "nginx:1", "10%", "-1", "Never", "Always"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop::sample::select(names.to_vec()).prop_map(str::to_owned),
                inner,
                0..5
            )
            .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_is_completed_once_and_judged(spec in odd(), pod in odd(), is_old in any::<bool>()) {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        for kind in ["ImagePullJob", "ImageListPullJob", "NodeImage"] {
            let once = completed(kind, &object, is_old, true);
            prop_assert_eq!(&completed(kind, &once, is_old, true), &once);
        }
        if let Ok(job) = from_value::<imagepulljob::Submitted>(&object) {
            let _ = imagepulljob::validate::validate(&job).to_string();
        }
        if let Ok(job) = from_value::<imagelistpulljob::Submitted>(&object) {
            let _ = imagelistpulljob::validate::validate(&job).to_string();
        }
        if let Ok(images) = from_value::<nodeimage::Submitted>(&object) {
            let _ = nodeimage::validate::validate(&images).to_string();
        }
        if let Ok(request) = from_value::<Submitted>(&object) {
            let _ = check(&request).to_string();
        }
        if let Ok(target) = Target::of("a", Some(&json!({"spec": {"nodeName": "n"}, "status": pod}))) {
            let mut object = object.as_object().unwrap().clone();
            let _ = default_object(&mut object, &target, &pod);
        }
    }
}
