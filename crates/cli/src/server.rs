//! The API server: objects read and written as JSON, in a version that it serves.
//!
//! - A kind that is not served in one version is asked for in the next older one. In none: OpenKruise is not installed there.
//! - Every answer has a deadline. An error is one sentence; what the API server has against a request is the best text a user can get.

use crate::{
    args::Connection,
    connect::connect,
    kinds::{EVENT, Kind},
};
use anyhow::{Context as _, Result, anyhow};
use http::{Method, Request, header::CONTENT_TYPE};
use kruise_api::resource::Scope;
use kruise_core::conversion;
use kube::{Client, core::Status};
use serde_json::Value;
use std::{fmt, time::Duration};
use tokio::time::timeout;

/// Objects that are asked for at a time.
const PAGE: u32 = 500;
/// Who writes.
const MANAGER: &str = "kubectl-kruise";

/// The way to the API server.
#[derive(Clone)]
pub(crate) struct Server {
    client: Client,
    /// The namespace that is meant when none is given.
    pub(crate) namespace: String,
    deadline: Duration,
}

/// An object as the server sent it.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) version: &'static str,
    pub(crate) value: Value,
}

impl Object {
    /// Returns a text of its metadata.
    fn meta(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.meta("name")
    }

    pub(crate) fn namespace(&self) -> &str {
        self.meta("namespace")
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta("uid")
    }

    /// Returns how it is called in what is printed.
    pub(crate) fn printed(&self) -> String {
        self.kind.printed(self.name())
    }

    /// Returns how it is called in errors: `clonesets.apps.kruise.io "web"`.
    pub(crate) fn quoted(&self) -> String {
        format!("{} \"{}\"", self.kind.resource(), self.name())
    }

    /// Returns the same object in the newest version of its kind.
    pub(crate) fn newest(&self) -> Value {
        let newest = self.kind.versions().first().copied().unwrap_or(self.version);
        let mut value = self.value.clone();
        if newest == self.version {
            return value;
        }
        let Value::Object(fields) = &mut value else {
            return value;
        };
        match conversion::convert(fields, &format!("{}/{newest}", self.kind.group)) {
            Ok(_) => value,
            Err(_) => self.value.clone(),
        }
    }
}

/// Why the server did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It does not know the kind in this version.
    NotServed,
    /// There is no such object.
    NotFound(String),
    /// The user may not do that.
    Forbidden(String),
    /// The object is not what it was when it was read.
    Changed,
    /// Anything else.
    Other(anyhow::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed => f.write_str("the API server does not serve it"),
            Self::NotFound(text) | Self::Forbidden(text) => f.write_str(text),
            Self::Changed => f.write_str("it was changed by somebody else at the same time"),
            Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    fn of(error: kube::Error, name: Option<&str>) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            error => return Self::Other(anyhow::Error::from(error).context("the API server cannot be asked")),
        };
        // An object that is not there is named in the answer; a kind that is not there is not.
        let names_it = |status: &Status| {
            name.is_some_and(|name| status.details.as_ref().is_some_and(|details| details.name == name))
        };
        match status.code {
            404 if names_it(&status) || status.message.starts_with("namespaces ") => Self::NotFound(status.message),
            404 => Self::NotServed,
            403 => Self::Forbidden(status.message),
            409 if status.reason == "Conflict" => Self::Changed,
            422 if is_failed_test(&status) => Self::Changed,
            _ => Self::Other(anyhow!("{}", status.message)),
        }
    }
}

/// Whether a JSON patch could not be applied, as it can not when its `test` fails. What is wrong with an object is told by field instead.
fn is_failed_test(status: &Status) -> bool {
    let has_causes = status
        .details
        .as_ref()
        .is_some_and(|details| !details.causes.is_empty());
    !has_causes && status.message.contains("rejected our request")
}

/// What is sent to change an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// A JSON merge patch.
    Merge(Value),
    /// A JSON patch.
    Json(Value),
}

impl Server {
    pub(crate) async fn connect(connection: &Connection) -> Result<Self> {
        let (client, namespace) = connect(connection).await?;
        Ok(Self::of(client, namespace, connection.request_timeout))
    }

    pub(crate) fn of(client: Client, namespace: String, deadline: Duration) -> Self {
        Self {
            client,
            namespace,
            deadline,
        }
    }

    async fn send(&self, method: Method, path: &str, type_: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, type_);
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// Sends a request; `name` is what a 404 names when the object is missing and not its kind.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        type_: &str,
        body: Vec<u8>,
        name: Option<&str>,
    ) -> Result<Value, Refusal> {
        let answer = timeout(self.deadline, self.send(method, path, type_, body)).await;
        let late = |_| Refusal::Other(anyhow!("the API server does not answer within {:?}", self.deadline));
        answer.map_err(late)?.map_err(|error| Refusal::of(error, name))
    }

    async fn read(&self, path: &str, name: Option<&str>) -> Result<Value, Refusal> {
        self.ask(Method::GET, path, JSON, Vec::new(), name).await
    }

    /// Reads an object, in the given version or in the newest that is served.
    pub(crate) async fn get(
        &self,
        kind: Kind,
        version: Option<&'static str>,
        namespace: &str,
        name: &str,
    ) -> Result<Object, Refusal> {
        for served in versions(kind, version) {
            let path = format!("{}/{name}", path(kind, served, Some(namespace)));
            match self.read(&path, Some(name)).await {
                Ok(value) => {
                    let version = served;
                    return Ok(Object { kind, version, value });
                }
                Err(Refusal::NotServed) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Err(Refusal::Other(not_served(kind, version)))
    }

    /// Reads all objects of a kind, or those with labels; of all namespaces when none is given. Nothing when the kind is not served.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        version: Option<&'static str>,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Option<Vec<Object>>, Refusal> {
        for version in versions(kind, version) {
            match self.list_version(kind, version, namespace, labels).await {
                Ok(objects) => return Ok(Some(objects)),
                Err(Refusal::NotServed) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(None)
    }

    async fn list_version(
        &self,
        kind: Kind,
        version: &'static str,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<Object>, Refusal> {
        let mut query = format!("{}?limit={PAGE}", path(kind, version, namespace));
        if let Some(labels) = labels {
            query.push_str(&format!("&labelSelector={}", encoded(labels)));
        }
        self.pages(kind, version, &query).await
    }

    /// Reads what was reported about an object. What is about objects of the cluster is in the default namespace.
    pub(crate) async fn events(&self, object: &Object) -> Result<Vec<Object>, Refusal> {
        let namespace = match object.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let fields = encoded(&format!("involvedObject.uid={}", object.uid()));
        let query = format!(
            "{}?limit={PAGE}&fieldSelector={fields}",
            path(EVENT, "v1", Some(namespace))
        );
        self.pages(EVENT, "v1", &query).await
    }

    async fn pages(&self, kind: Kind, version: &'static str, query: &str) -> Result<Vec<Object>, Refusal> {
        let mut objects = Vec::new();
        let mut more = String::new();
        loop {
            let mut page = self.read(&format!("{query}{more}"), None).await?;
            let items = page["items"].take();
            let Value::Array(items) = items else {
                return Ok(objects);
            };
            for mut value in items {
                // Items of a list do not say what they are.
                value["apiVersion"] = page["apiVersion"].clone();
                value["kind"] = kind.kind.into();
                objects.push(Object { kind, version, value });
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => more = format!("&continue={}", encoded(token)),
                _ => return Ok(objects),
            }
        }
    }

    /// Changes an object, or one of its subresources. With `dry_run` the server only says what would come of it.
    pub(crate) async fn patch(
        &self,
        object: &Object,
        subresource: &str,
        patch: &Patch,
        dry_run: bool,
    ) -> Result<Value, Refusal> {
        let path = path(object.kind, object.version, Some(object.namespace()));
        let path = format!("{path}/{}{subresource}{}", object.name(), options(dry_run));
        let (type_, body) = match patch {
            Patch::Merge(patch) => ("application/merge-patch+json", patch),
            Patch::Json(patch) => ("application/json-patch+json", patch),
        };
        let body = body.to_string().into_bytes();
        self.ask(Method::PATCH, &path, type_, body, Some(object.name())).await
    }

    /// Makes an object.
    pub(crate) async fn create(
        &self,
        kind: Kind,
        namespace: &str,
        value: &Value,
        dry_run: bool,
    ) -> Result<Object, Refusal> {
        for version in kind.versions() {
            let mut value = value.clone();
            value["apiVersion"] = api_version(kind, version).into();
            let path = format!("{}{}", path(kind, version, Some(namespace)), options(dry_run));
            let body = value.to_string().into_bytes();
            match self.ask(Method::POST, &path, JSON, body, None).await {
                Ok(value) => return Ok(Object { kind, version, value }),
                Err(Refusal::NotServed) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Err(Refusal::Other(not_installed(&[kind])))
    }
}

const JSON: &str = "application/json";

fn options(dry_run: bool) -> String {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    format!("?fieldManager={MANAGER}{dry_run}")
}

fn versions(kind: Kind, given: Option<&'static str>) -> Vec<&'static str> {
    given.map_or_else(|| kind.versions(), |version| vec![version])
}

/// The error of a cluster that does not serve a kind, or not in the version that was asked for.
pub(crate) fn not_served(kind: Kind, version: Option<&str>) -> anyhow::Error {
    match version {
        Some(version) if kind.ours.is_some() => anyhow!("the cluster does not serve {}s as {version}", kind.kind),
        _ => not_installed(&[kind]),
    }
}

/// The error of a cluster that serves none of these kinds.
pub(crate) fn not_installed(kinds: &[Kind]) -> anyhow::Error {
    let all_ours = kinds.iter().all(|kind| kind.ours.is_some());
    let names = match kinds {
        [kind] => format!("{}s", kind.kind),
        _ => "any of these kinds".to_owned(),
    };
    if all_ours {
        anyhow!("the cluster does not know {names}: OpenKruise is not installed there")
    } else {
        anyhow!("the cluster does not know {names}")
    }
}

fn api_version(kind: Kind, version: &str) -> String {
    if kind.group.is_empty() {
        version.to_owned()
    } else {
        format!("{}/{version}", kind.group)
    }
}

fn path(kind: Kind, version: &str, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let space = match namespace {
        Some(namespace) if kind.scope == Scope::Namespaced => format!("/namespaces/{namespace}"),
        _ => String::new(),
    };
    format!("/{root}/{}{space}/{}", api_version(kind, version), kind.plural)
}

/// A text as a value of a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let one = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(one).collect()
}

/// Reads what is to be read of the server, whatever it is.
pub(crate) fn read_as<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T> {
    // Texts are read, and not values: some types keep what they read as it was written.
    serde_json::from_str(&value.to_string()).context("the API server sent what cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{self, DEPLOYMENT, POD};
    use serde_json::json;

    #[test]
    fn paths_are_those_of_the_api_server() {
        let kind = |word: &str| kinds::resolve(word).unwrap().0;
        for (kind, version, namespace, expected) in [
            (POD, "v1", Some("a"), "/api/v1/namespaces/a/pods"),
            (DEPLOYMENT, "v1", None, "/apis/apps/v1/deployments"),
            (
                kind("clone"),
                "v1beta1",
                Some("a"),
                "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets",
            ),
            (
                kind("sidecarset"),
                "v1beta1",
                Some("a"),
                "/apis/apps.kruise.io/v1beta1/sidecarsets",
            ),
        ] {
            assert_eq!(path(kind, version, namespace), expected);
        }
        assert_eq!(encoded("a=b,c in (d)"), "a%3Db%2Cc%20in%20%28d%29");
    }

    #[test]
    fn given_an_older_version_then_the_newest_is_made_of_it() {
        let (kind, version) = kinds::resolve("clonesets.v1alpha1.apps.kruise.io").unwrap();
        let value = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"},
            "spec": {"updateStrategy": {"paused": true, "type": "InPlaceOnly"}}});
        let object = Object {
            kind,
            version: version.unwrap(),
            value,
        };
        let newest = object.newest();
        assert_eq!(newest["apiVersion"], "apps.kruise.io/v1beta1");
        assert_eq!(newest["spec"]["updateStrategy"]["rollingUpdate"]["paused"], true);
        assert_eq!(
            (object.printed().as_str(), object.name()),
            ("cloneset.apps.kruise.io/web", "web")
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        let told = |code: u16, reason: &str, message: &str, details: &Value| {
            let status: Status = serde_json::from_value(
                json!({"status": "Failure", "code": code, "reason": reason, "message": message, "details": details}),
            )
            .unwrap();
            Refusal::of(kube::Error::Api(Box::new(status)), Some("web"))
        };
        let status = |code, reason, name: &str| told(code, reason, "m", &json!({ "name": name }));
        assert!(matches!(status(404, "NotFound", "web"), Refusal::NotFound(_)));
        assert!(matches!(status(404, "NotFound", ""), Refusal::NotServed));
        assert!(matches!(status(403, "Forbidden", "web"), Refusal::Forbidden(_)));
        assert!(matches!(status(409, "Conflict", "web"), Refusal::Changed));
        assert!(matches!(status(409, "AlreadyExists", "web"), Refusal::Other(_)));
        let failed = "the server rejected our request due to an error in our request";
        assert!(matches!(told(422, "Invalid", failed, &json!({})), Refusal::Changed));
        let wrong = json!({"causes": [{"reason": "FieldValueInvalid", "message": failed, "field": "spec"}]});
        assert!(matches!(told(422, "Invalid", failed, &wrong), Refusal::Other(_)));
    }
}
