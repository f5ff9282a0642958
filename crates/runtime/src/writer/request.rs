//! What a write says, as an HTTP request.

use std::time::Duration;

use http::{HeaderValue, Method, Request, header};
use kruise_api::resource::{Preconditions, Resource, Scope, Subresource};
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::error::{Class, Error};

/// The object that a write is about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its kind.
    pub resource: &'a Resource,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: &'a str,
    pub name: &'a str,
    /// Part of it that is written by itself; nothing for the object.
    pub subresource: Option<Subresource>,
}

impl<'a> Target<'a> {
    /// An object.
    pub fn new(resource: &'a Resource, namespace: &'a str, name: &'a str) -> Self {
        Self {
            resource,
            namespace,
            name,
            subresource: None,
        }
    }

    /// The status of an object. For Pods such a write can carry labels and annotations as well.
    #[must_use]
    pub fn status(self) -> Self {
        self.part(Subresource::Status)
    }

    /// Another part of an object.
    #[must_use]
    pub fn part(self, subresource: impl Into<Option<Subresource>>) -> Self {
        Self {
            subresource: subresource.into(),
            ..self
        }
    }

    fn path(&self) -> Result<String, Error> {
        let mut path = collection(self.resource, self.namespace)?;
        path.push('/');
        path.push_str(segment("name", self.name)?);
        if let Some(subresource) = self.subresource {
            path.push('/');
            path.push_str(subresource.as_str());
        }
        Ok(path)
    }
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7386: what is there replaces, `null` removes, lists are replaced as a whole.
    Merge(Value),
    /// RFC 6902: a list of operations.
    Json(Vec<Value>),
    /// Kubernetes' own: like merge, but lists of its own kinds are merged by their keys.
    Strategic(Value),
}

impl Patch {
    fn content_type(&self) -> &'static str {
        match self {
            Self::Merge(_) => "application/merge-patch+json",
            Self::Json(_) => "application/json-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// The document with the conditions in it: the server refuses a patch that changes UID or resourceVersion.
    fn document(self, conditions: &Preconditions) -> Result<Value, Error> {
        let fields = fields(conditions);
        match self {
            Self::Merge(mut document) | Self::Strategic(mut document) => {
                if !fields.is_empty() {
                    let metadata = document
                        .as_object_mut()
                        .map(|object| object.entry("metadata").or_insert_with(|| json!({})))
                        .and_then(Value::as_object_mut)
                        .ok_or_else(|| Error::new(Class::Permanent, "a patch has to be a JSON object"))?;
                    metadata.extend(fields);
                }
                Ok(document)
            }
            Self::Json(mut operations) => {
                let conditions = fields.into_iter().map(
                    |(name, value)| json!({ "op": "replace", "path": format!("/metadata/{name}"), "value": value }),
                );
                operations.extend(conditions);
                Ok(Value::Array(operations))
            }
        }
    }
}

/// The conditions as fields of an object's metadata.
fn fields(conditions: &Preconditions) -> Map<String, Value> {
    let pairs = [
        ("uid", &conditions.uid),
        ("resourceVersion", &conditions.resource_version),
    ];
    let given = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.into())));
    given.collect()
}

/// How a deletion goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions<'a> {
    /// Conditions.
    pub preconditions: Preconditions,
    /// Seconds that a Pod gets to end; the Pod's own setting when not given.
    pub grace_period_seconds: Option<i64>,
    /// `Foreground`, `Background` or `Orphan`; the server's default when not given.
    pub propagation: Option<&'a str>,
}

impl DeleteOptions<'_> {
    fn document(&self) -> Value {
        let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
        let conditions = fields(&self.preconditions);
        if !conditions.is_empty() {
            options["preconditions"] = conditions.into();
        }
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.into();
        }
        options
    }
}

/// One write, before it is sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) verb: &'static str,
    pub(super) resource: String,
    method: Method,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    manages_fields: bool,
    dry_run: bool,
}

const JSON: &str = "application/json";
/// Of the answer only the metadata is of interest.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Call {
    pub(super) fn create(resource: &Resource, namespace: &str, body: Vec<u8>) -> Result<Self, Error> {
        Ok(Self {
            verb: "create",
            resource: resource.to_string(),
            method: Method::POST,
            path: collection(resource, namespace)?,
            content_type: JSON,
            body,
            manages_fields: true,
            dry_run: false,
        })
    }

    pub(super) fn patch(target: &Target<'_>, patch: Patch, conditions: &Preconditions) -> Result<Self, Error> {
        Ok(Self {
            content_type: patch.content_type(),
            body: bytes(&patch.document(conditions)?),
            ..Self::on("patch", Method::PATCH, target)?
        })
    }

    pub(super) fn replace(target: &Target<'_>, body: Vec<u8>) -> Result<Self, Error> {
        Ok(Self {
            body,
            ..Self::on("update", Method::PUT, target)?
        })
    }

    pub(super) fn delete(target: &Target<'_>, options: &DeleteOptions<'_>) -> Result<Self, Error> {
        Ok(Self {
            body: bytes(&options.document()),
            manages_fields: false,
            ..Self::on("delete", Method::DELETE, target)?
        })
    }

    pub(super) fn evict(target: &Target<'_>, options: &DeleteOptions<'_>) -> Result<Self, Error> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": target.name, "namespace": target.namespace },
            "deleteOptions": options.document(),
        });
        Ok(Self {
            body: bytes(&eviction),
            manages_fields: false,
            ..Self::on("evict", Method::POST, &target.part(Subresource::Eviction))?
        })
    }

    fn on(verb: &'static str, method: Method, target: &Target<'_>) -> Result<Self, Error> {
        let resource = match target.subresource {
            None => target.resource.to_string(),
            Some(part) => format!("{}/{part}", target.resource),
        };
        Ok(Self {
            verb,
            resource,
            method,
            path: target.path()?,
            content_type: JSON,
            body: Vec::new(),
            manages_fields: true,
            dry_run: false,
        })
    }

    /// Asks the server to check everything and to store nothing.
    pub(super) fn dry_run(mut self) -> Self {
        self.dry_run = true;
        // What a deletion says in its body counts instead of the query.
        if self.method == Method::DELETE
            && let Ok(mut options) = serde_json::from_slice::<Value>(&self.body)
        {
            options["dryRun"] = json!(["All"]);
            self.body = bytes(&options);
        }
        self
    }

    /// The request, with this much time for the server.
    pub(super) fn request(
        self,
        field_manager: &str,
        time: Duration,
        agent: HeaderValue,
    ) -> Result<Request<Body>, Error> {
        let mut query = format!("timeout={}ms", time.as_millis().max(1));
        if self.dry_run {
            query.push_str("&dryRun=All");
        }
        if self.manages_fields {
            query.push_str("&fieldManager=");
            query.push_str(field_manager);
        }
        Request::builder()
            .method(self.method)
            .uri(format!("{}?{query}", self.path))
            .header(header::USER_AGENT, agent)
            .header(header::CONTENT_TYPE, self.content_type)
            .header(header::ACCEPT, if self.manages_fields { METADATA } else { JSON })
            .body(Body::from(self.body))
            .map_err(|error| Error::new(Class::Permanent, format!("{}: {error}", self.path)))
    }
}

fn collection(resource: &Resource, namespace: &str) -> Result<String, Error> {
    if resource.scope == Scope::Namespaced {
        segment("namespace", namespace)?;
    }
    Ok(resource.path(namespace))
}

/// Refuses what would change the meaning of the path. An empty name would delete a whole collection.
fn segment<'a>(what: &str, text: &'a str) -> Result<&'a str, Error> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if text.is_empty() || text == "." || text == ".." || !text.chars().all(harmless) {
        return Err(Error::new(Class::Permanent, format!("{text:?} cannot be a {what}")));
    }
    Ok(text)
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kruise_api::kind::Kind as _;

    use super::*;

    fn sent(call: Call) -> (String, String, String) {
        let body = String::from_utf8(call.body.clone()).expect("text");
        let request = call
            .request(
                "kruise-manager",
                Duration::from_secs(30),
                HeaderValue::from_static("agent"),
            )
            .expect("a request");
        let content_type = request.headers()[header::CONTENT_TYPE]
            .to_str()
            .expect("text")
            .to_owned();
        (format!("{} {}", request.method(), request.uri()), content_type, body)
    }

    #[test]
    fn given_writes_then_requests_are_those_of_the_api() {
        let target = Target::new(Pod::RESOURCE, "n", "a");
        let conditions = Preconditions::uid("u").at("7");
        let delete = DeleteOptions {
            preconditions: conditions.clone(),
            grace_period_seconds: Some(0),
            propagation: Some("Foreground"),
        };
        let patch = |target: &Target<'_>, patch| Call::patch(target, patch, &conditions).expect("a call");
        for (call, line, content_type, body) in [
            (
                Call::create(Pod::RESOURCE, "n", b"{}".to_vec()).expect("a call"),
                "POST /api/v1/namespaces/n/pods?timeout=30000ms&fieldManager=kruise-manager",
                "application/json",
                json!({}),
            ),
            (
                patch(
                    &target,
                    Patch::Merge(json!({ "metadata": { "labels": { "l": null } } })),
                ),
                "PATCH /api/v1/namespaces/n/pods/a?timeout=30000ms&fieldManager=kruise-manager",
                "application/merge-patch+json",
                json!({ "metadata": { "labels": { "l": null }, "uid": "u", "resourceVersion": "7" } }),
            ),
            (
                patch(
                    &target.status(),
                    Patch::Strategic(json!({ "status": { "phase": "Running" } })),
                ),
                "PATCH /api/v1/namespaces/n/pods/a/status?timeout=30000ms&fieldManager=kruise-manager",
                "application/strategic-merge-patch+json",
                json!({ "status": { "phase": "Running" }, "metadata": { "uid": "u", "resourceVersion": "7" } }),
            ),
            (
                patch(&target, Patch::Json(vec![json!({ "op": "remove", "path": "/a" })])),
                "PATCH /api/v1/namespaces/n/pods/a?timeout=30000ms&fieldManager=kruise-manager",
                "application/json-patch+json",
                json!([{ "op": "remove", "path": "/a" },
                       { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
                       { "op": "replace", "path": "/metadata/uid", "value": "u" }]),
            ),
            (
                Call::delete(&target, &delete).expect("a call"),
                "DELETE /api/v1/namespaces/n/pods/a?timeout=30000ms",
                "application/json",
                json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Foreground",
                        "preconditions": { "uid": "u", "resourceVersion": "7" } }),
            ),
            (
                Call::evict(&target, &DeleteOptions::default()).expect("a call"),
                "POST /api/v1/namespaces/n/pods/a/eviction?timeout=30000ms",
                "application/json",
                json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "a", "namespace": "n" },
                        "deleteOptions": { "apiVersion": "v1", "kind": "DeleteOptions" } }),
            ),
        ] {
            let (sent_line, sent_type, sent_body) = sent(call);
            assert_eq!((sent_line.as_str(), sent_type.as_str()), (line, content_type));
            assert_eq!(serde_json::from_str::<Value>(&sent_body).expect("JSON"), body);
        }
    }

    #[test]
    fn given_a_dry_run_then_every_verb_says_so_where_the_server_looks() {
        let target = Target::new(Pod::RESOURCE, "n", "a");
        let (line, _, body) = sent(
            Call::delete(&target, &DeleteOptions::default())
                .expect("a call")
                .dry_run(),
        );
        assert_eq!(line, "DELETE /api/v1/namespaces/n/pods/a?timeout=30000ms&dryRun=All");
        assert_eq!(
            serde_json::from_str::<Value>(&body).expect("JSON")["dryRun"],
            json!(["All"])
        );
        let (line, _, _) = sent(
            Call::evict(&target, &DeleteOptions::default())
                .expect("a call")
                .dry_run(),
        );
        assert_eq!(
            line,
            "POST /api/v1/namespaces/n/pods/a/eviction?timeout=30000ms&dryRun=All"
        );
    }

    #[test]
    fn given_a_name_that_would_mean_another_path_then_nothing_is_sent() {
        for name in ["", ".", "..", "a/b", "a?b", "a%2fb", "a b", "ä"] {
            let error =
                Call::delete(&Target::new(Pod::RESOURCE, "n", name), &DeleteOptions::default()).expect_err(name);
            assert_eq!(error.class(), Class::Permanent);
            assert!(
                Call::create(Pod::RESOURCE, name, Vec::new()).is_err(),
                "namespace {name:?}"
            );
        }
    }

    #[test]
    fn given_a_patch_that_is_no_object_then_conditions_are_not_lost_silently() {
        let target = Target::new(Pod::RESOURCE, "n", "a");
        for patch in [json!([]), json!(null), json!({ "metadata": 7 })] {
            assert!(Call::patch(&target, Patch::Merge(patch), &Preconditions::uid("u")).is_err());
        }
    }
}
