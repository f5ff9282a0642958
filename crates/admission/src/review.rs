//! The AdmissionReview protocol of the API server, `admission.k8s.io/v1` and `v1beta1`. An answer has the version of its question.
//!
//! Only the envelope is read. The objects stay as the text that came; whoever needs a part of one reads that part.

use crate::Verdict;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use kruise_core::json_patch::Operation;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use thiserror::Error;

const API_VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// What the API server asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    /// The resource in the version in which the object is sent.
    #[serde(borrow, default)]
    pub resource: Resource<'a>,
    /// `eviction` and the like; empty for the object itself.
    #[serde(borrow, default)]
    pub sub_resource: Cow<'a, str>,
    /// Empty when the API server is yet to give a name.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(borrow, default)]
    pub operation: Cow<'a, str>,
    #[serde(borrow, default)]
    pub user_info: User<'a>,
    /// The object as it is to be; nothing for DELETE.
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// The object as it is; nothing for CREATE.
    #[serde(borrow, default)]
    pub old_object: Option<&'a RawValue>,
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// How it is to be done.
    #[serde(borrow, default)]
    pub options: Option<&'a RawValue>,
}

/// A resource in one version.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Resource<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub resource: Cow<'a, str>,
}

/// Who asks the API server.
#[derive(Debug, Default, Deserialize)]
pub struct User<'a> {
    #[serde(borrow, default)]
    pub username: Cow<'a, str>,
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    /// A list of names, which few handlers read.
    #[serde(borrow, default)]
    pub groups: Option<&'a RawValue>,
    /// Lists of texts by key.
    #[serde(borrow, default)]
    pub extra: Option<&'a RawValue>,
}

impl Request<'_> {
    /// Whether this is about an object of this resource itself, in whatever version.
    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        self.resource.group == group && self.resource.resource == resource && self.sub_resource.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
}

/// The body is no AdmissionReview: HTTP status 400.
#[derive(Debug, Error)]
pub(crate) enum BadReview {
    #[error("the body cannot be read: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the body is not an AdmissionReview: {0}")]
    NotAReview(&'static str),
}

/// Reads the envelope. The first value is the version to answer in.
pub(crate) fn read(body: &[u8]) -> Result<(&'static str, Request<'_>), BadReview> {
    let question: Question<'_> = serde_json::from_slice(body)?;
    if question.kind != "AdmissionReview" {
        return Err(BadReview::NotAReview("kind is something else"));
    }
    let version = API_VERSIONS.into_iter().find(|known| *known == question.api_version);
    let version = version.ok_or(BadReview::NotAReview("apiVersion is not known"))?;
    let request = question.request.ok_or(BadReview::NotAReview("there is no request"))?;
    Ok((version, request))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    kind: &'static str,
    api_version: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    status: Status<'a>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

/// A patch as the text that an answer has; nothing in it has to be escaped.
fn in_base64(patch: &[Operation]) -> Result<Box<RawValue>, serde_json::Error> {
    let patch = serde_json::to_vec(patch)?;
    let mut text = String::with_capacity(patch.len().div_ceil(3) * 4 + 2);
    text.push('"');
    BASE64.encode_string(patch, &mut text);
    text.push('"');
    RawValue::from_string(text)
}

/// The body of the answer.
pub(crate) fn answer(api_version: &'static str, uid: &str, verdict: &Verdict) -> Result<Vec<u8>, serde_json::Error> {
    let patch = match verdict.patch.as_slice() {
        [] => None,
        patch => Some(in_base64(patch)?),
    };
    serde_json::to_vec(&Answer {
        kind: "AdmissionReview",
        api_version,
        response: Response {
            uid,
            allowed: verdict.allowed,
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            status: Status {
                code: verdict.code,
                message: &verdict.message,
                reason: verdict.reason,
            },
            warnings: &verdict.warnings,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_core::json_patch::Operation;
    use serde_json::{Value, json};

    fn review(api_version: &str) -> String {
        json!({
            "kind": "AdmissionReview",
            "apiVersion": api_version,
            "request": {
                "uid": "u-\"1\"",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": "ns",
                "operation": "CREATE",
                "userInfo": {"username": "somebody", "groups": ["a"]},
                "object": {"kind": "Pod", "novel": [1.0, {"x": "é"}]},
                "oldObject": null,
                "dryRun": true,
                "options": {"kind": "CreateOptions"},
            },
        })
        .to_string()
    }

    #[test]
    fn given_either_version_then_the_envelope_is_read_and_the_object_stays_text() {
        for api_version in API_VERSIONS {
            let body = review(api_version);
            let (version, request) = read(body.as_bytes()).unwrap();
            assert_eq!(version, api_version);
            assert_eq!(request.uid, "u-\"1\"");
            assert!(
                request.is_about("", "pods") && !request.is_about("apps", "pods") && !request.is_about("", "nodes")
            );
            assert_eq!((request.name.as_ref(), request.namespace.as_ref()), ("", "ns"));
            assert_eq!(request.operation, "CREATE");
            assert_eq!(request.user_info.username, "somebody");
            assert_eq!(
                request.object.unwrap().get(),
                r#"{"kind":"Pod","novel":[1.0,{"x":"é"}]}"#
            );
            assert!(request.old_object.is_none());
            assert_eq!(request.dry_run, Some(true));
        }
    }

    #[test]
    fn given_something_else_then_the_reason_is_told() {
        let table = [
            ("", "EOF"),
            ("{}", "kind is something else"),
            ("[]", "kind is something else"),
            (r#"{"kind":"AdmissionReview"}"#, "apiVersion is not known"),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{}}"#,
                "apiVersion is not known",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}"#,
                "there is no request",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}"#,
                "invalid type",
            ),
        ];
        for (body, reason) in table {
            let message = read(body.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(reason), "{body}: {message}");
        }
    }

    fn answered(verdict: &Verdict) -> Value {
        serde_json::from_slice(&answer(API_VERSIONS[0], "u", verdict).unwrap()).unwrap()
    }

    #[test]
    fn given_verdicts_then_answers_say_no_more_than_needed() {
        let envelope = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        assert_eq!(
            answered(&Verdict::allow()),
            envelope(json!({"uid": "u", "allowed": true, "status": {"code": 200}}))
        );
        assert_eq!(
            answered(&Verdict::refuse(403, "no").because("Forbidden")),
            envelope(
                json!({"uid": "u", "allowed": false, "status": {"code": 403, "message": "no", "reason": "Forbidden"}})
            )
        );
        let patch = vec![Operation::Remove { path: "/a".into() }];
        let patched = answered(&Verdict::change(patch).warn("careful"));
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        assert_eq!(patched["response"]["warnings"], json!(["careful"]));
        let bytes = BASE64.decode(patched["response"]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(bytes, br#"[{"op":"remove","path":"/a"}]"#);
        assert_eq!(answered(&Verdict::change(vec![])), answered(&Verdict::allow()));
    }
}
