//! How what is distributed is watched: never with its content.

use super::watched::Watched;
use crate::Settings;
use kruise_api::{configmap::ConfigMap, resourcedistribution::v1beta1::ResourceDistribution};
use kruise_core::resourcedistribution::manifest::Identity;
use kruise_runtime::cache::{Index, Kind};

/// Distributions by kind and name of what they distribute, see [`distributed`].
pub const DISTRIBUTIONS_BY_RESOURCE: Index<ResourceDistribution> = Index::new("resource", |distribution, key| {
    let identity = Identity::of(&distribution.spec.resource);
    key(&distributed(&identity.kind, &identity.metadata.name));
});

/// An object that may be distributed, whatever its namespace: `Secret/registry-cred`.
pub fn distributed(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

impl Watched for ResourceDistribution {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&DISTRIBUTIONS_BY_RESOURCE)
    }
}

impl Watched for ConfigMap {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}
