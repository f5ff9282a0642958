//! A PersistentPodState on its way into the cluster: [`validate`](super::validate). It has no defaults.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::kind::Kind as _;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use kruise_api::read::{ReadError, from_slice};
use kruise_api::shared::target::TargetReference;
use serde::Deserialize;
use serde_json::Value;

use super::{kinds, validate, workload_of};
use crate::admission::{Admit, Env, Lookups, Needs, ObjectRef, Refusal, Version};
use crate::shared::tree::Object;

pub(super) const OTHERS: ObjectRef = ObjectRef::AllOf(PersistentPodState::RESOURCE);

/// A PersistentPodState as a user submitted it, as far as its rules go: what differs between the versions is left to the schema.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Submitted {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub target_ref: TargetReference,
    pub required_persistent_topology: Option<Value>,
    pub preferred_persistent_topology: Option<Vec<Value>>,
}

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_to_validate(&self, _: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        let is_listed = !kinds::is_stateful_set(&workload_of(&self.spec.target_ref));
        Needs {
            objects: [OTHERS]
                .into_iter()
                .chain(is_listed.then_some(ObjectRef::Configuration))
                .collect(),
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
