//! Keeps an eye on the ConfigMap `kruise-configuration`.
//!
//! What cannot be read is told when it is written, not when somebody needs it; the metric `kruise_configuration_errors` says how many values that are.

use crate::{
    Settings,
    platform::{Platform, Watched},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kruise_api::{configuration::Configuration, kind::Kind as _, meta::Meta, names::object::CONFIGURATION};
use kruise_runtime::cache::{Kind, Store};
use prometheus::{IntGauge, Registry};
use serde::Deserialize;
use std::collections::BTreeMap;
use tracing::{error, info};

/// The ConfigMap, in our own namespace. There is one at most.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigurationMap {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

impl Watched for ConfigurationMap {
    fn kind(settings: &Settings) -> Kind<Self> {
        Kind::projected(
            ConfigMap::RESOURCE,
            |map: &Self| (&map.metadata).into(),
            |map: &Self| (&map.metadata).into(),
        )
        .namespace(&settings.environment.namespace)
        .fields(format!("metadata.name={CONFIGURATION}"))
    }
}

impl ConfigurationMap {
    /// What it says.
    pub fn read(&self) -> Configuration {
        Configuration::read(self.data.as_ref().unwrap_or(&BTreeMap::new()))
    }
}

/// What the ConfigMap says now; nothing when there is none.
pub fn current(store: &Store<ConfigurationMap>) -> Configuration {
    match store.list().first() {
        Some(map) => map.read(),
        None => Configuration::read(&BTreeMap::new()),
    }
}

/// Watches the ConfigMap and tells what is wrong with it.
pub fn watch(platform: &mut Platform, registry: &Registry) -> prometheus::Result<Store<ConfigurationMap>> {
    let errors = IntGauge::new(
        "kruise_configuration_errors",
        "Values of the ConfigMap kruise-configuration that cannot be read.",
    )?;
    registry.register(Box::new(errors.clone()))?;
    let store = platform.store::<ConfigurationMap>();
    let spreads = platform.spreads().clone();
    store.subscribe(move |event| {
        let configuration = event.new.map(|map| map.read());
        let wrong = configuration.as_ref().map(Configuration::errors).unwrap_or_default();
        let custom = configuration
            .as_ref()
            .and_then(|read| read.workload_spread.as_ref().ok());
        spreads.set_custom(custom.map(|custom| custom.as_slice().into()));
        errors.set(wrong.len() as i64);
        for error in &wrong {
            error!("{error}");
        }
        if wrong.is_empty() {
            info!(
                "{CONFIGURATION} is {}",
                if event.new.is_some() { "read" } else { "gone" }
            );
        }
    });
    Ok(store)
}
