//! Pod and claim templates of workloads, checked by the API server itself.
//!
//! The rules for a Pod are thousands and change with every release of Kubernetes, so we do not repeat them: a core `PodTemplate` (or a
//! `PersistentVolumeClaim`) with the same content is created as a *dry run* in the user's namespace. Nothing is kept; what the API server finds wrong
//! comes back as field errors, which are told at the place where the workload has its template.
//!
//! - One call per template: answers are remembered by content for a while.
//! - What cannot be asked (no right, no answer in time, a quota or somebody's webhook in the way) is not held against the user: the template
//!   passes, and the rest is found out when Pods are created.
//! - *Defaults are not taken from the answer.* They come from our own table ([`kruise_core::pod_template`]), whatever the API server says or whether it
//!   could be asked: a default more or less changes the hash of a template and would restart every Pod of the workload.

mod memory;

use kruise_api::{gates::Gates, names::component::MANAGER_USER_AGENT};
use kruise_core::{
    field_error::{FieldError, FieldErrorKind, FieldErrors, Path},
    pod_template,
    shared::tree::Object,
};
use kube::Client;
use memory::{Key, Memory};
use prometheus::IntCounterVec;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tracing::debug;

/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long not to ask again after the right was missing.
const NO_RIGHT: Duration = Duration::from_mins(1);

/// Why a template was not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// We may not create such objects, not even as a dry run.
    NoRight,
    /// There was no answer, or one about something else than the template.
    NoAnswer,
}

/// What the API server says of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateCheck {
    Good,
    /// Fields are wrong.
    Invalid(FieldErrors),
    /// It cannot even be read as a template: a field has the wrong type.
    Malformed(String),
    /// It was not checked.
    Unchecked(Unchecked),
}

/// The service for all kinds. Clones share one memory.
#[derive(Clone)]
pub struct Templates(Arc<Inner>);

struct Inner {
    client: Client,
    gates: Gates,
    allow_privileged: bool,
    memory: Memory,
    checks: IntCounterVec,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Templates")
    }
}

/// What is created as a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stand {
    PodTemplate,
    Claim,
}

impl Stand {
    fn kind(self) -> &'static str {
        match self {
            Self::PodTemplate => "PodTemplate",
            Self::Claim => "PersistentVolumeClaim",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::PodTemplate => "podtemplates",
            Self::Claim => "persistentvolumeclaims",
        }
    }

    fn object(self, content: &Object) -> Value {
        let metadata = json!({"generateName": "template-check-"});
        match self {
            Self::PodTemplate => {
                json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": content})
            }
            Self::Claim => {
                let spec = content.get("spec");
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
            }
        }
    }

    /// The field of the dry run's object at which the content is.
    fn root(self) -> &'static str {
        match self {
            Self::PodTemplate => "template",
            Self::Claim => "",
        }
    }
}

impl Templates {
    /// A service that asks by this client; `checks` counts how.
    pub fn new(client: Client, gates: Gates, allow_privileged: bool, checks: IntCounterVec) -> Self {
        Self(Arc::new(Inner {
            client,
            gates,
            allow_privileged,
            memory: Memory::default(),
            checks,
        }))
    }

    /// Writes the defaults into a Pod template. Says whether there was anything to write.
    pub fn default_pod(&self, template: &mut Object) -> bool {
        pod_template::default(template, self.0.gates)
    }

    /// Writes the defaults into a claim template. Says whether there was anything to write.
    pub fn default_claim(&self, claim: &mut Object) -> bool {
        pod_template::default_claim(claim, self.0.gates)
    }

    /// Checks a Pod template that is at `path` of an object in `namespace`.
    pub async fn check_pod(&self, namespace: &str, template: &Object, path: &Path) -> TemplateCheck {
        let check = self.check(Stand::PodTemplate, namespace, template, path).await;
        if self.0.allow_privileged {
            return check;
        }
        let privileged = pod_template::privileged(template, path);
        match check {
            TemplateCheck::Invalid(mut errors) => {
                errors.extend(privileged);
                TemplateCheck::Invalid(errors)
            }
            TemplateCheck::Good | TemplateCheck::Unchecked(_) if !privileged.is_empty() => {
                TemplateCheck::Invalid(FieldErrors(privileged))
            }
            other => other,
        }
    }

    /// Checks a claim template that is at `path` of an object in `namespace`.
    pub async fn check_claim(&self, namespace: &str, claim: &Object, path: &Path) -> TemplateCheck {
        self.check(Stand::Claim, namespace, claim, path).await
    }

    async fn check(&self, stand: Stand, namespace: &str, content: &Object, path: &Path) -> TemplateCheck {
        let inner = &self.0;
        let object = stand.object(content);
        let body = object.to_string().into_bytes();
        let key = Key::of(stand.plural(), &body);
        let (check, how) = match inner.memory.recall(&key, Instant::now()) {
            Some(known) => (known, "memory"),
            None => match ask(&inner.client, stand, namespace, body).await {
                TemplateCheck::Unchecked(why) => {
                    if why == Unchecked::NoRight {
                        let until = Instant::now() + NO_RIGHT;
                        inner.memory.remember_for_now(key, TemplateCheck::Unchecked(why), until);
                    }
                    (TemplateCheck::Unchecked(why), "unchecked")
                }
                answer => {
                    inner.memory.remember(key, answer.clone(), Instant::now());
                    (answer, "asked")
                }
            },
        };
        inner.checks.with_label_values(&[how]).inc();
        match check {
            TemplateCheck::Invalid(errors) => {
                let rooted = errors.0.into_iter().map(|error| at(error, stand.root(), path));
                TemplateCheck::Invalid(FieldErrors(rooted.collect()))
            }
            other => other,
        }
    }
}

/// The same error, told at the place where the user has the template.
fn at(error: FieldError, root: &str, path: &Path) -> FieldError {
    let below = error.path.strip_prefix(root).unwrap_or(&error.path);
    let dot = if below.is_empty() || below.starts_with(['.', '[']) {
        ""
    } else {
        "."
    };
    let place = format!("{path}{dot}{below}");
    FieldError {
        // A template that is the object itself has no place of its own.
        path: place.strip_prefix('.').unwrap_or(&place).to_owned(),
        ..error
    }
}

async fn ask(client: &Client, stand: Stand, namespace: &str, body: Vec<u8>) -> TemplateCheck {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let is_name = namespace
        .chars()
        .all(|sign| sign.is_ascii_alphanumeric() || sign == '-');
    let path = format!(
        "/api/v1/namespaces/{namespace}/{}?dryRun=All&fieldValidation=Ignore&fieldManager={MANAGER_USER_AGENT}",
        stand.plural()
    );
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let (true, Ok(request)) = (is_name, request.body(body)) else {
        return TemplateCheck::Unchecked(Unchecked::NoAnswer);
    };
    match timeout(DEADLINE, client.request::<Answer>(request)).await {
        Ok(Ok(_)) => TemplateCheck::Good,
        Ok(Err(kube::Error::Api(status))) => outcome_of(stand, &status),
        Ok(Err(error)) => {
            debug!("a template cannot be checked: {error}");
            TemplateCheck::Unchecked(Unchecked::NoAnswer)
        }
        Err(_) => TemplateCheck::Unchecked(Unchecked::NoAnswer),
    }
}

/// The created object; there is nothing in it that we take.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
}

fn outcome_of(stand: Stand, status: &kube::core::Status) -> TemplateCheck {
    debug!("a template is refused: {}", status.message);
    match (status.code, status.reason.as_str()) {
        (422, "Invalid") => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let about_content = |field: &str| match stand {
                Stand::PodTemplate => field == "template" || field.starts_with("template."),
                Stand::Claim => field == "spec" || field.starts_with("spec."),
            };
            let errors: Vec<_> = causes
                .filter(|cause| about_content(&cause.field))
                .map(|cause| FieldError {
                    path: cause.field.clone(),
                    kind: FieldErrorKind::by_reason(&cause.reason).unwrap_or(FieldErrorKind::Invalid),
                    body: cause.message.clone(),
                })
                .collect();
            if errors.is_empty() {
                TemplateCheck::Unchecked(Unchecked::NoAnswer)
            } else {
                TemplateCheck::Invalid(FieldErrors(errors))
            }
        }
        (400, "BadRequest") if is_about_decoding(stand, &status.message) => {
            TemplateCheck::Malformed(status.message.clone())
        }
        (403, _) if status.message.contains("cannot create resource") => TemplateCheck::Unchecked(Unchecked::NoRight),
        _ => TemplateCheck::Unchecked(Unchecked::NoAnswer),
    }
}

/// Whether the API server could not read the object. With the same code somebody else's webhook refuses it, or the server a webhook that is not
/// made for dry runs, which says nothing of the template.
fn is_about_decoding(stand: Stand, message: &str) -> bool {
    let kind = stand.kind();
    message.starts_with(&format!("{kind} in version \"v1\" cannot be handled as a {kind}: "))
}

#[cfg(test)]
mod tests;
