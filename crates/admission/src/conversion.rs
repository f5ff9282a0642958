//! `/convert`: objects from one version of a kind to another, for the API server.

use crate::dispatch::Answer;
use kruise_core::conversion::{self, Reviewed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tracing::{error, warn};

/// Answers a ConversionReview. The second value is whether the conversion panicked.
pub(crate) fn answer(body: &[u8]) -> (Answer, bool) {
    match catch_unwind(AssertUnwindSafe(|| conversion::review(body))).ok() {
        None => {
            error!("the conversion panicked");
            (Answer::text(500, "internal error: the conversion panicked"), true)
        }
        Some(Err(bad)) => (Answer::text(400, bad.to_string()), false),
        Some(Ok(reviewed)) => (response(&reviewed), false),
    }
}

fn response(reviewed: &Reviewed) -> Answer {
    for warning in &reviewed.warnings {
        warn!("left out of a conversion: {warning}");
    }
    if let Some(failure) = &reviewed.failure {
        warn!("cannot convert: {failure}");
    }
    match serde_json::to_vec(&reviewed.answer) {
        Ok(body) => Answer::json(body),
        Err(error) => Answer::text(500, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::names::group::{APPS_V1ALPHA1, APPS_V1BETA1};
    use serde_json::{Value, json};

    fn cloneset(name: &str) -> Value {
        json!({"apiVersion": APPS_V1ALPHA1, "kind": "CloneSet", "metadata": {"name": name}, "spec": {"novel": 1}})
    }

    fn converted(objects: &[Value]) -> (u16, Value) {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": APPS_V1BETA1, "objects": objects},
        });
        let (answer, panicked) = answer(review.to_string().as_bytes());
        assert!(!panicked);
        (answer.code, serde_json::from_slice(&answer.body).unwrap())
    }

    #[test]
    fn given_few_or_many_objects_then_all_are_converted_and_keep_unknown_fields() {
        for count in [1, 3000] {
            let objects: Vec<_> = (0..count).map(|number| cloneset(&number.to_string())).collect();
            let (code, review) = converted(&objects);
            let response = &review["response"];
            assert_eq!(
                (code, &response["uid"], &response["result"]["status"]),
                (200, &json!("u"), &json!("Success"))
            );
            let objects = response["convertedObjects"].as_array().unwrap();
            assert_eq!(objects.len(), count);
            assert!(
                objects
                    .iter()
                    .all(|object| object["apiVersion"] == APPS_V1BETA1 && object["spec"]["novel"] == 1)
            );
        }
    }

    #[test]
    fn given_one_bad_object_then_the_whole_review_fails() {
        let (code, review) = converted(&[cloneset("a"), json!({"kind": "Nonsense"}), cloneset("b")]);
        assert_eq!(code, 200);
        assert_eq!(review["response"]["result"]["status"], "Failure");
        assert_eq!(review["response"]["convertedObjects"], json!([]));
    }

    #[test]
    fn given_something_else_then_400() {
        for body in ["", "{}", "[]", "{\"kind\":\"ConversionReview\"}"] {
            assert_eq!(answer(body.as_bytes()).0.code, 400, "{body}");
        }
    }
}
