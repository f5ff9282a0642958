//! A ResourceDistribution on its way into the cluster: [`validate`](super::validate). It has no defaults.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::read::{ReadError, from_slice};
use kruise_api::resourcedistribution::{v1alpha1, v1beta1};

use super::{convert, validate};
use crate::admission::{self, Admit, Env, Lookups, Needs, Refusal, Version};
use crate::shared::tree::Object;

/// A ResourceDistribution as a user submitted it, in the words of v1beta1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submitted {
    pub metadata: ObjectMeta,
    pub spec: v1beta1::ResourceDistributionSpec,
}

impl Admit for Submitted {
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError> {
        let (metadata, spec) = match version {
            Version::V1alpha1 => {
                let read: admission::Submitted<v1alpha1::ResourceDistributionSpec> = from_slice(json)?;
                (read.metadata, convert::spec(read.spec))
            }
            Version::V1beta1 => {
                let read: admission::Submitted<v1beta1::ResourceDistributionSpec> = from_slice(json)?;
                (read.metadata, read.spec)
            }
        };
        Ok(Self { metadata, spec })
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_to_validate(&self, old: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        Needs {
            objects: validate::trial(self, old).into_iter().collect(),
            ..Needs::default()
        }
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, None, found).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, Some(old), found).into_result()
    }
}
