//! What a user did when the original was recorded, done once more.
//!
//! Words that begin with `$` stand for what is known only now: each scenario says what they mean.

use axum::http::{Request, header::CONTENT_TYPE};
use serde::Deserialize;
use serde_json::Value;

use super::Stage;

/// A request, and how it was answered.
#[derive(Deserialize)]
pub(crate) struct Call {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) code: u16,
    pub(crate) body: Option<Value>,
}

/// A text with the words in it replaced.
pub(crate) fn filled(text: &str, meant: &[(&str, String)]) -> String {
    meant
        .iter()
        .fold(text.to_owned(), |text, (word, name)| text.replace(word, name))
}

impl Call {
    /// Sends it; the answer has to be that of then. Returns why it was refused.
    pub(crate) async fn send(&self, stage: &Stage, meant: &[(&str, String)]) -> Option<String> {
        let body = self.body.as_ref().map(|body| filled(&body.to_string(), meant));
        let kind = match &self.body {
            Some(Value::Array(_)) => "application/json-patch+json",
            _ if self.verb == "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let path = filled(&self.path, meant);
        let request = Request::builder()
            .method(self.verb.as_str())
            .uri(&path)
            .header(CONTENT_TYPE, kind);
        let request = request.body(body.unwrap_or_default().into_bytes()).unwrap();
        match stage.client().request::<Value>(request).await {
            Ok(_) => {
                assert!(self.code < 300, "{path} was refused, and is not");
                None
            }
            Err(kube::Error::Api(status)) => {
                assert_eq!(status.code, self.code, "{path}: {status:?}");
                Some(status.message.clone())
            }
            Err(error) => panic!("{path}: {error}"),
        }
    }
}
