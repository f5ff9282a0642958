//! The `ConversionReview` protocol of the API server: `apiextensions.k8s.io/v1`, and `v1beta1` for old servers. An
//! answer has the version of its question.

use super::{Warning, convert};
use serde_json::{Map, Value, json};
use thiserror::Error;

const API_VERSIONS: [&str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];

/// The answer to a review.
#[derive(Debug, Clone, PartialEq)]
pub struct Reviewed {
    /// The `ConversionReview` to send back, with HTTP status 200 also when it says `Failure`.
    pub answer: Value,
    /// Why the answer is a failure.
    pub failure: Option<String>,
    /// Fields that were left out, one line each, with the object's name and without the value: that is nothing for a log.
    pub warnings: Vec<String>,
}

/// The body is not a `ConversionReview`: HTTP status 400.
#[derive(Debug, Error)]
pub enum BadReview {
    #[error("the body is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the body is not a ConversionReview: {0}")]
    NotAReview(&'static str),
}

/// Answers a `ConversionReview` given as the bytes of a request.
pub fn review(body: &[u8]) -> Result<Reviewed, BadReview> {
    let Value::Object(mut body) = serde_json::from_slice(body)? else {
        return Err(BadReview::NotAReview("not an object"));
    };
    if body.get("kind").and_then(Value::as_str) != Some("ConversionReview") {
        return Err(BadReview::NotAReview("kind is something else"));
    }
    let api_version = body.get("apiVersion").and_then(Value::as_str);
    let api_version = API_VERSIONS.into_iter().find(|known| Some(*known) == api_version);
    let api_version = api_version.ok_or(BadReview::NotAReview("apiVersion is not known"))?;
    let Some(Value::Object(mut request)) = body.remove("request") else {
        return Err(BadReview::NotAReview("there is no request"));
    };
    let objects = match request.remove("objects") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(objects)) => objects,
        Some(_) => return Err(BadReview::NotAReview("request.objects is not a list")),
    };
    let desired = request
        .get("desiredAPIVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();

    let mut warnings = Vec::new();
    let converted = convert_all(objects, desired, &mut warnings);
    let (objects, result, failure) = match converted {
        Ok(objects) => (objects, json!({"status": "Success"}), None),
        Err(message) => {
            let result = json!({"status": "Failure", "message": message});
            (Vec::new(), result, Some(message))
        }
    };
    let mut response = Map::new();
    response.insert("uid".into(), request.remove("uid").unwrap_or_default());
    response.insert("convertedObjects".into(), Value::Array(objects));
    response.insert("result".into(), result);
    let mut answer = Map::new();
    answer.insert("apiVersion".into(), api_version.into());
    answer.insert("kind".into(), "ConversionReview".into());
    answer.insert("response".into(), Value::Object(response));
    Ok(Reviewed {
        answer: Value::Object(answer),
        failure,
        warnings,
    })
}

fn convert_all(objects: Vec<Value>, desired: &str, warnings: &mut Vec<String>) -> Result<Vec<Value>, String> {
    let mut converted = Vec::with_capacity(objects.len());
    for (index, object) in objects.into_iter().enumerate() {
        let Value::Object(mut object) = object else {
            return Err(format!("request.objects[{index}] is not an object"));
        };
        match convert(&mut object, desired) {
            Ok(found) => {
                let text = |warning: Warning| format!("{}: {}: {}", name(&object), warning.field, warning.reason);
                warnings.extend(found.into_iter().map(text));
            }
            Err(error) => return Err(format!("request.objects[{index}], {}: {error}", name(&object))),
        }
        converted.push(Value::Object(object));
    }
    Ok(converted)
}

/// `Kind namespace/name`, as far as the object has them.
fn name(object: &Map<String, Value>) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |field| text(object.get("metadata").and_then(|metadata| metadata.get(field)));
    let (kind, namespace, name) = (text(object.get("kind")), metadata("namespace"), metadata("name"));
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}")
}
