//! How SidecarSets, and what decides whether they apply to a Pod, are watched.

use super::watched::Watched;
use crate::Settings;
use kruise_admission::SETS_BY_POD;
use kruise_api::{namespace::Namespace, sidecarset::v1beta1::SidecarSet};
use kruise_runtime::cache::Kind;

impl Watched for SidecarSet {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of().index(&SETS_BY_POD)
    }
}

impl Watched for Namespace {
    fn kind(_: &Settings) -> Kind<Self> {
        Kind::of()
    }
}
