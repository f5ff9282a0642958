//! What can go wrong with a call to the API server, sorted by what to do about it.
//!
//! | class | when | what the queue does |
//! |---|---|---|
//! | [`Class::Transient`] | no answer, a timeout, 429, 401, 5xx | tries again with back-off |
//! | [`Class::Conflict`] | the object changed meanwhile, or exists already | tries again soon, quietly: the cache will know more |
//! | [`Class::Gone`] | the object or its namespace is no more | the same |
//! | [`Class::Denied`] | no right, quota, admission or a disruption budget said no | tries again with back-off, every ten seconds in the end |
//! | [`Class::Permanent`] | the request itself is wrong, or about something this server does not have | waits for a change, with one late retry |
//!
//! The server's own message is always kept: it is the best text a user can get.

use std::time::Duration;

use kube::core::Status;
use serde::Deserialize;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Try the same again.
    Transient,
    /// Look again, then decide again.
    Conflict,
    /// Somebody has to allow it first.
    Denied,
    /// The same request will never work.
    Permanent,
    /// What the request was about is no more.
    Gone,
}

impl Class {
    /// Returns the label value in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Permanent => "permanent",
            Self::Gone => "gone",
        }
    }
}

/// An error with its class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    class: Class,
    message: String,
    reason: String,
    /// The HTTP status; 0 when there was no answer.
    code: u16,
    timed_out: bool,
    may_have_applied: bool,
    retry_after: Option<Duration>,
}

impl Error {
    /// An error of our own making.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            reason: String::new(),
            code: 0,
            timed_out: false,
            may_have_applied: false,
            retry_after: None,
        }
    }

    /// The request was sent and no answer came: nobody knows whether the server has done it.
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self {
            may_have_applied: true,
            ..Self::new(Class::Transient, message)
        }
    }

    /// The same, because the server took too long.
    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self {
            timed_out: true,
            ..Self::lost(message)
        }
    }

    /// Returns the class, which says what to do about it.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Returns the server's machine-readable reason, `AlreadyExists`; empty when it gave none.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// True when the write may have happened although no good answer came. Whoever counts objects has to look again.
    pub fn may_have_applied(&self) -> bool {
        self.may_have_applied
    }

    /// Returns how long the server asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// True when the server has more to do than it can.
    pub(crate) fn is_overload(&self) -> bool {
        self.class == Class::Transient && matches!(self.code, 429 | 503)
    }

    /// True when it took too long, which may be the server's doing or that of a webhook which it asks.
    pub(crate) fn is_timeout(&self) -> bool {
        self.timed_out
    }

    /// True when the server has answered.
    pub(crate) fn was_answered(&self) -> bool {
        self.code != 0
    }

    /// True when a create found the name taken.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Reads the answer of the API server to a request that did not succeed.
    pub fn from_answer(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
        let message = if answer.message.is_empty() {
            let text = String::from_utf8_lossy(body);
            let text: String = text.trim().chars().take(500).collect();
            if text.is_empty() {
                format!("the API server answered {code}")
            } else {
                format!("the API server answered {code}: {text}")
            }
        } else {
            answer.message.clone()
        };
        let asked = answer.details.as_ref().and_then(|details| details.retry_after_seconds);
        Self {
            class: class(code, &answer),
            message,
            code,
            timed_out: false,
            may_have_applied: answered_too_late(code) && !answer.message.contains(WEBHOOK_FAILED),
            reason: answer.reason,
            retry_after: asked.map(Duration::from_secs).or(retry_after),
        }
    }
}

/// Errors of kube's client, for reads and for the calls that go through it.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(&status),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::BuildRequest(_) => {
                Self::new(Class::Permanent, error.to_string())
            }
            _ => Self::lost(with_causes(&error)),
        }
    }
}

impl Error {
    fn from_status(status: &Status) -> Self {
        let body = serde_json::to_vec(status).unwrap_or_default();
        Self::from_answer(status.code, &body, None)
    }
}

/// How the API server says that a webhook did not answer. It asks webhooks before it stores anything.
const WEBHOOK_FAILED: &str = "failed calling webhook";

/// The part of a `Status` that decides the class.
#[derive(Default, Deserialize)]
struct Answer {
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    name: String,
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
}

impl Answer {
    fn caused_by(&self, reason: &str) -> bool {
        let causes = self.details.iter().flat_map(|details| details.causes.iter().flatten());
        causes.into_iter().any(|cause| cause.reason == reason)
    }

    /// A webhook or policy may refuse with any code it likes; the server's wording is what all refusals share.
    fn refused_by_admission(&self) -> bool {
        let by_webhook = self.message.starts_with("admission webhook ") && self.message.contains(" denied the request");
        by_webhook
            || self.message.contains(": ValidatingAdmissionPolicy '") && self.message.contains(" denied request: ")
    }

    /// Not the object is missing, but what was asked of it: an older server has no `resize`, a newer one with the feature turned off neither.
    fn is_about_no_object(&self) -> bool {
        self.reason == "NotFound" && self.details.as_ref().is_none_or(|details| details.name.is_empty())
    }
}

fn class(code: u16, answer: &Answer) -> Class {
    // A namespace that is going away refuses new objects with 403: nobody can allow it any more.
    if answer.caused_by("NamespaceTerminating") {
        return Class::Gone;
    }
    if answer.refused_by_admission() || answer.caused_by("DisruptionBudget") {
        return Class::Denied;
    }
    match code {
        404 if answer.is_about_no_object() => Class::Permanent,
        404 | 410 => Class::Gone,
        409 => Class::Conflict,
        403 => Class::Denied,
        401 | 408 | 429 | 500..=599 => Class::Transient,
        // A UID that is not the object's own means that the object was replaced by another of the same name.
        422 if answer.message.contains("metadata.uid: Invalid value") => Class::Conflict,
        _ => Class::Permanent,
    }
}

/// The server gave up waiting for itself; the write may still have reached the store.
fn answered_too_late(code: u16) -> bool {
    matches!(code, 408 | 500 | 502 | 503 | 504)
}

/// Returns the error with all its causes: the outermost alone says only "client error (Connect)".
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(code: u16, reason: &str, message: &str, cause: &str) -> Error {
        // As the server does it: what is about an object names it.
        let name = message.split('"').nth(1);
        let body = json!({
            "kind": "Status", "code": code, "reason": reason, "message": message,
            "details": { "name": name.unwrap_or_default(), "causes": [{ "reason": cause, "message": "m" }] },
        });
        Error::from_answer(code, body.to_string().as_bytes(), None)
    }

    #[test]
    fn given_answers_of_the_server_then_the_class_says_what_to_do() {
        let denied = "admission webhook \"x.io\" denied the request: no";
        let policy = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        for (code, reason, message, cause, class) in [
            (409, "Conflict", "changed", "", Class::Conflict),
            (409, "AlreadyExists", "exists", "", Class::Conflict),
            (404, "NotFound", "pods \"a\" not found", "", Class::Gone),
            (410, "Expired", "too old", "", Class::Gone),
            (403, "Forbidden", "no right", "", Class::Denied),
            (403, "Forbidden", "terminating", "NamespaceTerminating", Class::Gone),
            (400, "BadRequest", denied, "", Class::Denied),
            (500, "InternalError", denied, "", Class::Denied),
            (429, "TooManyRequests", "budget", "DisruptionBudget", Class::Denied),
            (429, "TooManyRequests", "slow down", "", Class::Transient),
            (422, "Invalid", "spec.x: Invalid value", "", Class::Permanent),
            (
                422,
                "Invalid",
                "metadata.uid: Invalid value: \"u\"",
                "",
                Class::Conflict,
            ),
            (422, "Invalid", policy, "", Class::Denied),
            (
                404,
                "NotFound",
                "the server could not find the requested resource",
                "",
                Class::Permanent,
            ),
            (401, "Unauthorized", "token", "", Class::Transient),
            (413, "RequestEntityTooLarge", "big", "", Class::Permanent),
            (503, "ServiceUnavailable", "starting", "", Class::Transient),
        ] {
            let error = answer(code, reason, message, cause);
            assert_eq!(error.class(), class, "{code} {reason} {message} {cause}");
            assert_eq!(error.to_string(), message);
            assert_eq!(error.reason(), reason);
        }
    }

    #[test]
    fn given_an_answer_that_is_no_status_then_its_text_is_kept() {
        let error = Error::from_answer(502, b"<html>bad gateway</html>", Some(Duration::from_secs(3)));
        assert_eq!(error.class(), Class::Transient);
        assert_eq!(
            error.to_string(),
            "the API server answered 502: <html>bad gateway</html>"
        );
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
        assert!(error.may_have_applied());
        assert_eq!(
            Error::from_answer(404, b"", None).to_string(),
            "the API server answered 404"
        );
    }

    #[test]
    fn given_the_server_asks_for_patience_in_the_body_then_it_is_heard() {
        let body = json!({ "message": "m", "details": { "retryAfterSeconds": 7 } }).to_string();
        let error = Error::from_answer(429, body.as_bytes(), None);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert!(!error.may_have_applied(), "429 is said before anything is done");
        let body = json!({ "message": "Internal error occurred: failed calling webhook \"m\": no endpoints", "reason": "InternalError" });
        let error = Error::from_answer(500, body.to_string().as_bytes(), None);
        assert_eq!(error.class(), Class::Transient);
        assert!(!error.may_have_applied(), "webhooks are asked before anything is done");
    }
}
