//! Which version of each object there is, from the cache of the process, which has nothing but the metadata of these.

use crate::{
    Settings,
    descriptor::{Configuration, Resource, crd_name, descriptors},
};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruise_api::{
    kind::Kind as _,
    meta::{Object as _, PartialObject},
};
use kruise_runtime::cache::{Cache, Kind, Store, SyncState};
use std::{collections::BTreeSet, fmt, sync::Arc};
use tokio::sync::Notify;

/// An object that we care for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Object {
    Configuration(Configuration),
    /// By name.
    Crd(String),
}

/// What admission watches for itself: the Secret with the certificates, both webhook configurations, and CRDs. It is part of the cache of the process.
pub struct Installed {
    secret: Store<PartialObject>,
    mutating: Store<PartialObject>,
    validating: Store<PartialObject>,
    crds: Store<PartialObject>,
    /// Names of our CRDs, sorted.
    ours: BTreeSet<String>,
    mutating_name: String,
    validating_name: String,
    changed: Arc<Notify>,
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").finish_non_exhaustive()
    }
}

impl Installed {
    /// Declares what is watched.
    pub fn watch(cache: &mut Cache, settings: &Settings) -> Self {
        let ours = descriptors().filter_map(|descriptor| match &descriptor.resource {
            Resource::Ours(kind) => Some(crd_name(kind)),
            Resource::BuiltIn { .. } => None,
        });
        let ours: BTreeSet<String> = ours.collect();
        let named =
            |kind: Kind<PartialObject>, name: &str| kind.fields(format!("metadata.name={name}")).metadata_only();
        let secret = named(Kind::partial(Secret::RESOURCE), &settings.secret_name).namespace(&*settings.namespace);
        let mutating = Kind::partial(MutatingWebhookConfiguration::RESOURCE);
        let validating = Kind::partial(ValidatingWebhookConfiguration::RESOURCE);
        let this = Self {
            secret: cache.watch(secret),
            mutating: cache.watch(named(mutating, &settings.mutating_configuration)),
            validating: cache.watch(named(validating, &settings.validating_configuration)),
            crds: cache.watch(Kind::partial(CustomResourceDefinition::RESOURCE).metadata_only()),
            ours: ours.clone(),
            mutating_name: settings.mutating_configuration.clone(),
            validating_name: settings.validating_configuration.clone(),
            changed: Arc::new(Notify::new()),
        };
        for store in [&this.secret, &this.mutating, &this.validating] {
            let changed = this.changed.clone();
            store.subscribe(move |_| changed.notify_one());
        }
        let changed = this.changed.clone();
        this.crds.subscribe(move |event| {
            if event.latest().is_some_and(|crd| ours.contains(crd.name())) {
                changed.notify_one();
            }
        });
        this
    }

    fn stores(&self) -> [&Store<PartialObject>; 4] {
        [&self.secret, &self.mutating, &self.validating, &self.crds]
    }

    /// Waits until every kind has been listed.
    pub(super) async fn listed(&self) {
        for store in self.stores() {
            // The sender lives in the store.
            let _ = store.states().wait_for(|state| *state == SyncState::Synced).await;
        }
    }

    /// Returns what has not been listed yet.
    pub(super) fn missing(&self) -> String {
        let missing = self
            .stores()
            .into_iter()
            .filter(|store| store.state() != SyncState::Synced);
        let kinds: Vec<&str> = missing.map(|store| store.resource().kind).collect();
        format!("cannot watch {}", kinds.join(", "))
    }

    /// Waits until something is different.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the version of an object; nothing when it is not there.
    pub(super) fn version(&self, object: &Object) -> Option<u64> {
        let object = match object {
            Object::Configuration(Configuration::Mutating) => self.mutating.get("", &self.mutating_name),
            Object::Configuration(Configuration::Validating) => self.validating.get("", &self.validating_name),
            Object::Crd(name) => self.crds.get("", name),
        };
        object.map(|object| object.resource_version())
    }

    /// Whether the CRD of this name is installed.
    pub(super) fn has_crd(&self, name: &str) -> bool {
        self.crds.contains("", name)
    }

    /// Returns the names of our CRDs that are installed, sorted.
    pub(super) fn crds(&self) -> Vec<String> {
        self.ours.iter().filter(|name| self.has_crd(name)).cloned().collect()
    }
}
