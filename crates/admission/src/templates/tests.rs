use super::*;
use kube::core::Status;

fn status(value: Value) -> Status {
    serde_json::from_value(value).unwrap()
}

#[test]
fn given_field_errors_then_they_are_told_where_the_user_has_the_template() {
    let refused = status(json!({
        "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "PodTemplate \"x\" is invalid: …",
        "details": {"causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "template.spec.containers[0].image"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"-\": bad", "field": "template.labels"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: 1", "field": "metadata.name"},
            {"reason": "FieldNovelty", "message": "Novel", "field": "template"},
        ]},
    }));
    let TemplateCheck::Invalid(errors) = outcome_of(Stand::PodTemplate, &refused) else {
        panic!("not invalid");
    };
    let path = Path::new("spec").child("template");
    let told: Vec<_> = errors
        .0
        .into_iter()
        .map(|error| at(error, "template", &path).to_string())
        .collect();
    assert_eq!(
        told,
        [
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.labels: Invalid value: \"-\": bad",
            "spec.template: Novel",
        ]
    );
}

#[test]
fn given_errors_of_a_claim_then_they_are_told_below_it() {
    let error = FieldError::required(&Path::new("spec").child("accessModes"), "");
    let path = Path::new("spec").child("volumeClaimTemplates").index(1);
    assert_eq!(
        at(error, "", &path).to_string(),
        "spec.volumeClaimTemplates[1].spec.accessModes: Required value"
    );
}

#[test]
fn given_other_refusals_then_only_those_about_the_template_count() {
    let refusal = |code: u16, reason: &str, message: &str| {
        outcome_of(
            Stand::PodTemplate,
            &status(json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})),
        )
    };
    let wrong_type = "PodTemplate in version \"v1\" cannot be handled as a PodTemplate: json: cannot unmarshal string";
    assert_eq!(
        refusal(400, "BadRequest", wrong_type),
        TemplateCheck::Malformed(wrong_type.into())
    );
    assert_eq!(
        refusal(
            403,
            "Forbidden",
            "podtemplates is forbidden: User \"u\" cannot create resource \"podtemplates\""
        ),
        TemplateCheck::Unchecked(Unchecked::NoRight)
    );
    for (code, reason, message) in [
        (
            400,
            "BadRequest",
            "admission webhook \"a.example.com\" does not support dry run",
        ),
        (
            400,
            "BadRequest",
            "admission webhook \"a.example.com\" denied the request: not on Fridays",
        ),
        (
            400,
            "",
            "admission webhook \"a.example.com\" denied the request: not on Fridays",
        ),
        (403, "Forbidden", "exceeded quota"),
        (404, "NotFound", "no namespace"),
        (422, "Invalid", "without causes"),
        (429, "TooManyRequests", "busy"),
        (500, "InternalError", "x"),
    ] {
        assert_eq!(
            refusal(code, reason, message),
            TemplateCheck::Unchecked(Unchecked::NoAnswer),
            "{code}"
        );
    }
}
