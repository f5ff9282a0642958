//! Every recorded request, and the answer we give.

use super::fixture::{Case, Recorded, VERSIONS, judged, pods, read, recorded};
use kruise_core::admission::{Admit as _, Lookups, Version};
use kruise_core::field_error::{FieldError, FieldErrorKind};

/// What the API server says of a Pod template, read back from the text of an error.
fn field_error(text: &str) -> FieldError {
    let (path, body) = text.split_once(": ").unwrap();
    FieldError {
        path: path.to_owned(),
        kind: FieldErrorKind::Invalid,
        body: body.to_owned(),
    }
}

/// What of our answer is not the recorded one.
fn difference(recorded: &Recorded, case: &Case, version: Version) -> Option<String> {
    let (object, stored) = recorded.objects(case);
    if case.operation == "delete" {
        let set = read(&object, version).unwrap();
        let refusal = set.refuse_deletion(super::fixture::gates());
        let code = refusal.is_some().then_some(403);
        return ((code, &refusal) != (case.code, &case.says)).then(|| format!("{code:?} {refusal:?}"));
    }
    let lookups = Lookups {
        template: case.template.iter().map(|text| field_error(text)).collect(),
        pods: pods(case, stored),
        ..Lookups::default()
    };
    let errors = match judged(&object, stored, version, &lookups) {
        Ok(errors) => errors,
        Err(reason) => return (case.code != Some(400)).then(|| format!("cannot be read: {reason}")),
    };
    let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    if case.allowed_here.is_some() {
        assert!(case.code.is_some(), "{}: the original refused", case.name);
        return (!texts.is_empty()).then(|| format!("{texts:#?}"));
    }
    if let Some(fields) = &case.api_server {
        // Found before we are asked. We say the same of the same fields, and maybe more of others.
        let missed = fields
            .iter()
            .find(|field| !errors.0.iter().any(|error| error.path == **field));
        return missed.map(|field| format!("{field} is not among {texts:#?}"));
    }
    if case.by.is_some() {
        // A value in the Pod template that cannot be read: only the API server knows.
        return (!texts.is_empty()).then(|| format!("{texts:#?}"));
    }
    let code = (!texts.is_empty()).then_some(422);
    ((code, &texts) != (case.code, &case.errors)).then(|| format!("{code:?} {texts:#?}"))
}

#[test]
fn given_every_recorded_request_then_the_verdict_is_the_same() {
    for version in VERSIONS {
        let recorded = recorded(version);
        let mut wrong = Vec::new();
        for case in &recorded.cases {
            if let Some(difference) = difference(&recorded, case, version) {
                wrong.push(format!(
                    "{} {}: {difference}\nrecorded: {:#?}",
                    case.operation, case.name, case.errors
                ));
            }
        }
        assert!(wrong.is_empty(), "{version:?}: {}\n{}", wrong.len(), wrong.join("\n"));
        let refused = recorded.cases.iter().filter(|case| case.code.is_some()).count();
        let counts = (recorded.cases.len(), refused);
        assert_eq!(counts, expected_counts(version), "cases and refusals of {version:?}");
    }
}

fn expected_counts(version: Version) -> (usize, usize) {
    match version {
        Version::V1alpha1 => (97, 55),
        Version::V1beta1 => (123, 69),
    }
}

#[test]
fn given_what_we_allow_and_the_original_refuses_then_it_is_this_and_no_more() {
    let names = |version| {
        let cases = recorded(version).cases.into_iter();
        cases
            .filter(|case| case.allowed_here.is_some())
            .map(|case| case.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(Version::V1alpha1), Vec::<String>::new());
    assert_eq!(
        names(Version::V1beta1),
        [
            "max-unavailable-zero-max-surge-one",
            "large-max-unavailable-negative-with-surge",
            "large-max-unavailable-zero-surge-one-percent",
        ]
    );
}
