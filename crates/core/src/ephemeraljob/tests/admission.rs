//! What the API server says of the stand-in is told of the ephemeral containers.

use super::super::{Submitted, validate};
use super::*;
use crate::admission::{Admit as _, Lookups};
use crate::field_error::{FieldError, Path};

fn submitted(containers: &Value) -> Submitted {
    let job =
        json!({"metadata": {"name": "job"}, "spec": {"selector": {}, "template": {"ephemeralContainers": containers}}});
    serde_json::from_value(job).unwrap()
}

#[test]
fn given_containers_then_the_stand_in_is_a_template_of_ordinary_ones() {
    let mut debug = container("Debug");
    debug["targetContainerName"] = json!("main");
    debug["ports"] = json!([{"containerPort": 80}]);
    debug["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    debug["tomorrow"] = json!(1);
    let [template] = &submitted(&json!([debug])).templates(None)[..] else {
        panic!("one stand-in")
    };
    let mut expected = container("c0");
    expected["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    expected["tomorrow"] = json!(1);
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "any"}}]);
    let spec = json!({"containers": [expected], "volumes": volumes});
    assert_eq!(Value::Object(template.template.clone()), json!({"spec": spec}));
    assert!(submitted(&json!([])).templates(None).is_empty());
    let same = submitted(&json!([container("a")]));
    assert!(
        same.templates(Some(&same.clone())).is_empty(),
        "what did not change is not judged again"
    );
}

#[test]
fn given_errors_of_the_stand_in_then_they_are_told_once_and_at_the_users_place() {
    let at = |path: &str| Path::new(path);
    let found = Lookups {
        template: vec![
            FieldError::required(&at("spec.containers[0].env[0].name"), ""),
            FieldError::required(&at("spec.containers[0].image"), ""),
            FieldError::required(&at("spec.volumes[0].name"), ""),
        ],
        ..Lookups::default()
    };
    let mut debug = container("debug");
    debug.as_object_mut().unwrap().remove("image");
    let errors = validate::validate(&submitted(&json!([debug])), None, &found);
    let expected = "[ephemeralContainers[0].image: Required value, ephemeralContainers[0].env[0].name: Required value]";
    assert_eq!(errors.to_string(), expected);
}

#[test]
fn given_containers_that_an_update_does_not_touch_then_they_are_not_judged_again() {
    let bad = submitted(&json!([{"name": "debug"}]));
    assert!(!validate::validate(&bad, None, &Lookups::default()).is_empty());
    assert!(validate::validate(&bad, Some(&bad.clone()), &Lookups::default()).is_empty());
}

#[test]
fn given_a_field_of_the_wrong_type_then_it_is_named() {
    let job =
        json!({"metadata": {"name": "a"}, "spec": {"template": {"ephemeralContainers": [{"name": "a", "image": 5}]}}});
    let error = Submitted::read(job.to_string().as_bytes(), crate::admission::Version::V1alpha1).unwrap_err();
    assert_eq!(error.path, "spec.template.ephemeralContainers[0].image");
}
