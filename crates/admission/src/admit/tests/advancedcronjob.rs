use super::*;
use crate::review;
use kruise_core::advancedcronjob::Submitted;
use serde_json::json;

/// Images are pulled: no Pod template has to be checked.
async fn asked(schedule: &str) -> Verdict {
    let list = json!({"images": ["busybox:1"], "completionPolicy": {"type": "Always"}});
    let template = json!({"imageListPullJobTemplate": {"spec": list}});
    let spec = json!({"schedule": schedule, "concurrencyPolicy": "Replace", "template": template});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "namespace": "ns", "name": "tick",
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "advancedcronjobs"},
        "object": {"metadata": {"name": "tick"}, "spec": spec},
    }})
    .to_string();
    let (_, request) = review::read(review.as_bytes()).unwrap();
    let context = context_alone(Gates::default());
    validate::<Submitted>(&request, &context, descriptor("advancedcronjobs")).await
}

#[tokio::test]
async fn given_a_schedule_that_never_comes_then_it_is_allowed_with_a_warning() {
    let verdict = asked("0 0 30 2 *").await;
    assert!(verdict.allowed, "{verdict:?}");
    let [warning] = &verdict.warnings[..] else {
        panic!("{verdict:?}")
    };
    assert!(warning.starts_with("spec.schedule: "), "{warning}");
    assert_eq!(asked("0 0 29 2 *").await, Verdict::allow());
    let refused = asked("whenever").await;
    assert!(!refused.allowed && refused.warnings.is_empty(), "{refused:?}");
}
