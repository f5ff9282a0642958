//! Writing the CA bundle to where API servers look for it.

use super::watch::{Installed, Object};
use crate::{
    Settings,
    configurations::{self, Entries},
    crds,
    descriptor::Configuration,
    endpoint::{Endpoint, path_of},
    metrics::Metrics,
};
use futures::{StreamExt as _, stream};
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_api::{
    kind::Kind as _,
    names::annotation::{WEBHOOK_TEMPLATE, WEBHOOK_TEMPLATE_HASH},
    resource::{Preconditions, Resource},
};
use kruise_runtime::{
    error::{Class, Error},
    writer::{Patch, Target, Writer},
};
use kube::{Client, core::ObjectMeta};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tracing::info;

const DEADLINE: Duration = Duration::from_secs(10);
/// Objects that are worked on at the same time.
const AT_ONCE: usize = 4;
/// Writes that may come at once; then there is one per second.
const BURST: u32 = 40;
const PER_WRITE: Duration = Duration::from_secs(1);

/// Why the bundle is not where it should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum InjectError {
    #[error("{0} does not exist; install the chart, or apply its webhook configurations again")]
    Missing(String),
    #[error("{object}: {reason}")]
    Api { object: String, reason: String },
    #[error("{0}: no answer in time")]
    Late(String),
    #[error("{0} changes all the time: somebody else writes it too")]
    Contended(String),
    #[error(
        "{0}: caBundle is not the ca.crt of the Secret; the certificates are managed elsewhere and have to be injected there"
    )]
    NotInjected(String),
}

/// How objects have to look.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) endpoint: Endpoint,
    /// In base64.
    pub(super) ca_bundle: String,
    /// Paths that are answered.
    pub(super) live: BTreeSet<&'static str>,
}

/// Remembers which objects are known to be right.
pub(super) struct CaInjector {
    client: Client,
    writer: Writer,
    mutating: String,
    validating: String,
    metrics: Metrics,
    /// What the objects were last compared with.
    compared: Option<Wanted>,
    /// The versions that were right.
    right: HashMap<Object, u64>,
    budget: Mutex<Budget>,
}

impl fmt::Debug for CaInjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaInjector")
            .field("right", &self.right)
            .finish_non_exhaustive()
    }
}

impl CaInjector {
    pub(super) fn new(client: Client, writer: Writer, settings: &Settings, metrics: Metrics) -> Self {
        Self {
            client,
            writer,
            mutating: settings.mutating_configuration.clone(),
            validating: settings.validating_configuration.clone(),
            metrics,
            compared: None,
            right: HashMap::new(),
            budget: Mutex::new(Budget::new(Instant::now())),
        }
    }

    /// Does not trust the watch of the webhook configurations for once: it may have died without a word.
    pub(super) fn look_again(&mut self) {
        self.right.retain(|object, _| matches!(object, Object::Crd(_)));
    }

    /// Writes what is not right. All objects are tried; the first failure is told.
    pub(super) async fn inject(&mut self, installed: &Installed, wanted: &Wanted) -> Result<(), InjectError> {
        let objects = self.unverified(installed, wanted);
        let this = &*self;
        let injected: Vec<_> = stream::iter(objects)
            .map(|object| async move {
                let injected = match &object {
                    Object::Configuration(configuration) => this.inject_configuration(*configuration, wanted).await,
                    Object::Crd(name) => this.inject_crd(name, wanted).await,
                };
                (object, injected)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut result = Ok(());
        for (object, injected) in injected {
            match injected {
                Ok(version) => {
                    self.right.insert(object, version);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Only looks whether all is right.
    pub(super) async fn verify(&mut self, installed: &Installed, wanted: &Wanted) -> Result<(), InjectError> {
        for object in self.unverified(installed, wanted) {
            let version = match &object {
                Object::Configuration(configuration) => {
                    let live = self.configuration(*configuration).await?;
                    let is_right = |entry: &Value| {
                        let config = &entry["clientConfig"];
                        let is_live = path_of(config).is_some_and(|path| wanted.live.contains(path));
                        !is_live || config["caBundle"] == wanted.ca_bundle.as_str()
                    };
                    if !live.entries().webhooks.iter().all(is_right) {
                        return Err(InjectError::NotInjected(self.name(*configuration)));
                    }
                    number(&live.version())
                }
                Object::Crd(name) => {
                    let crd = self.crd(name).await?;
                    let conversion = &crd.spec.conversion;
                    let bundle = conversion.pointer("/webhook/clientConfig/caBundle");
                    if crds::asks_webhook(conversion) && bundle.and_then(Value::as_str) != Some(&wanted.ca_bundle) {
                        return Err(InjectError::NotInjected(format!("CustomResourceDefinition {name}")));
                    }
                    number(&crd.metadata.resource_version.unwrap_or_default())
                }
            };
            self.right.insert(object, version);
        }
        Ok(())
    }

    /// Objects that are not known to be right in the version there is.
    fn unverified(&mut self, installed: &Installed, wanted: &Wanted) -> Vec<Object> {
        if self.compared.as_ref() != Some(wanted) {
            self.compared = Some(wanted.clone());
            self.right.clear();
        }
        let configurations = Configuration::BOTH.into_iter().map(Object::Configuration);
        let crds = installed.crds().into_iter().map(Object::Crd);
        let is_right = |object: &Object| {
            let right = self.right.get(object).copied();
            right.is_some() && right == installed.version(object)
        };
        configurations.chain(crds).filter(|object| !is_right(object)).collect()
    }

    async fn inject_configuration(&self, configuration: Configuration, wanted: &Wanted) -> Result<u64, InjectError> {
        let live = self.configuration(configuration).await?;
        let wanted = configurations::Wanted {
            endpoint: &wanted.endpoint,
            ca_bundle: &wanted.ca_bundle,
            live: &wanted.live,
        };
        let Some(new) = live.entries().rewritten(wanted) else {
            return Ok(number(&live.version()));
        };
        let patch = json!({
            "metadata": {"annotations": {WEBHOOK_TEMPLATE: new.template, WEBHOOK_TEMPLATE_HASH: new.hash}},
            "webhooks": new.webhooks,
        });
        let name = self.name(configuration);
        self.spend(&name)?;
        let target = Target::new(resource_of(configuration), "", self.object(configuration));
        let written = self.write(&name, &target, patch, live.version()).await?;
        info!("{name} is brought up to date");
        self.metrics.repairs.with_label_values(&[configuration.kind()]).inc();
        Ok(written)
    }

    async fn inject_crd(&self, name: &str, wanted: &Wanted) -> Result<u64, InjectError> {
        let crd = self.crd(name).await?;
        let version = crd.metadata.resource_version.unwrap_or_default();
        let Some(conversion) = crds::rewritten(&crd.spec.conversion, &wanted.endpoint, &wanted.ca_bundle) else {
            return Ok(number(&version));
        };
        let object = format!("CustomResourceDefinition {name}");
        self.spend(&object)?;
        let patch = json!({"spec": {"conversion": conversion}});
        let target = Target::new(CustomResourceDefinition::RESOURCE, "", name);
        let written = self.write(&object, &target, patch, version).await?;
        info!("{object} is brought up to date");
        self.metrics
            .repairs
            .with_label_values(&["CustomResourceDefinition"])
            .inc();
        Ok(written)
    }

    /// Changes an object, if it is still at this version. Returns the version that it has now.
    async fn write(
        &self,
        object: &str,
        target: &Target<'_>,
        patch: Value,
        version: String,
    ) -> Result<u64, InjectError> {
        let unchanged = Preconditions::NONE.at(version);
        let written = self.writer.patch(target, Patch::Merge(patch), &unchanged).await;
        written
            .map(|written| number(&written.resource_version))
            .map_err(|error| wrong(object, &error))
    }

    fn spend(&self, object: &str) -> Result<(), InjectError> {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        if budget.spend(Instant::now()) {
            Ok(())
        } else {
            Err(InjectError::Contended(object.to_owned()))
        }
    }

    fn object(&self, configuration: Configuration) -> &str {
        match configuration {
            Configuration::Mutating => &self.mutating,
            Configuration::Validating => &self.validating,
        }
    }

    fn name(&self, configuration: Configuration) -> String {
        format!("{} {}", configuration.kind(), self.object(configuration))
    }

    async fn configuration(&self, configuration: Configuration) -> Result<Live, InjectError> {
        let name = self.name(configuration);
        let path = resource_of(configuration).path("");
        self.get(&name, &format!("{path}/{}", self.object(configuration))).await
    }

    /// The part of a CRD that we look at; the schemas, which are most of it, are skipped.
    async fn crd(&self, name: &str) -> Result<Crd, InjectError> {
        let object = format!("CustomResourceDefinition {name}");
        let path = CustomResourceDefinition::RESOURCE.path("");
        self.get(&object, &format!("{path}/{name}")).await
    }

    async fn get<T: DeserializeOwned>(&self, object: &str, path: &str) -> Result<T, InjectError> {
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| InjectError::Api {
            object: object.to_owned(),
            reason: error.to_string(),
        })?;
        match timeout(DEADLINE, self.client.request(request)).await {
            Err(_) => Err(InjectError::Late(object.to_owned())),
            Ok(answer) => answer.map_err(|error| wrong(object, &Error::from(error))),
        }
    }
}

/// A webhook configuration as it is.
#[derive(Deserialize)]
struct Live {
    metadata: ObjectMeta,
    #[serde(default)]
    webhooks: Vec<Value>,
}

impl Live {
    fn version(&self) -> String {
        self.metadata.resource_version.clone().unwrap_or_default()
    }

    fn entries(&self) -> Entries {
        let annotation = |name| self.metadata.annotations.as_ref()?.get(name).cloned();
        Entries {
            webhooks: self.webhooks.clone(),
            template: annotation(WEBHOOK_TEMPLATE),
            hash: annotation(WEBHOOK_TEMPLATE_HASH),
        }
    }
}

#[derive(Deserialize)]
struct Crd {
    metadata: ObjectMeta,
    spec: CrdSpec,
}

#[derive(Deserialize)]
struct CrdSpec {
    #[serde(default)]
    conversion: Value,
}

fn resource_of(configuration: Configuration) -> &'static Resource {
    match configuration {
        Configuration::Mutating => MutatingWebhookConfiguration::RESOURCE,
        Configuration::Validating => ValidatingWebhookConfiguration::RESOURCE,
    }
}

fn wrong(object: &str, error: &Error) -> InjectError {
    let object = object.to_owned();
    match error.class() {
        Class::Gone => InjectError::Missing(object),
        _ => InjectError::Api {
            object,
            reason: error.to_string(),
        },
    }
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// A store of writes that fills up again.
#[derive(Debug)]
struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
        }
    }

    fn spend(&mut self, now: Instant) -> bool {
        let refills = now.duration_since(self.since).as_secs() / PER_WRITE.as_secs();
        let refills = u32::try_from(refills).unwrap_or(BURST).min(BURST);
        if refills > 0 {
            self.left = (self.left + refills).min(BURST);
            self.since = now;
        }
        let can = self.left > 0;
        self.left = self.left.saturating_sub(1);
        can
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_race_then_writes_slow_down_to_one_per_second() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let spent = |budget: &mut Budget, at: u64| {
            (0..100)
                .filter(|_| budget.spend(start + Duration::from_secs(at)))
                .count()
        };
        assert_eq!(spent(&mut budget, 0), 40);
        assert_eq!(spent(&mut budget, 0), 0);
        assert_eq!(spent(&mut budget, 1), 1);
        assert_eq!(spent(&mut budget, 4), 3);
        assert_eq!(spent(&mut budget, 1000), 40);
    }
}
