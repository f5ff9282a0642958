//! A StatefulSet on its way into the cluster: [`default`](super::default), [`validate`](super::validate), warnings of what is [`erased`], and protection
//! against deletion.

use kruise_api::gates::Gates;
use kruise_api::read::{ReadError, from_slice};
use kruise_api::statefulset::v1beta1::{ClaimUpdateType, StatefulSetSpec};

use super::erased;
use super::validate::{classes_to_look_up, validate};
use crate::admission::{self, Admit, Env, Lookups, Needs, Refusal, Version};
use crate::shared::tree::Object;
use crate::shared::validate::deletion_protection;

/// A StatefulSet as it was submitted: v1beta1 only adds fields.
pub type Submitted = admission::Submitted<StatefulSetSpec>;

impl Admit for Submitted {
    /// Pod and claim templates are not looked into.
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError> {
        let mut set: Self = from_slice(json)?;
        if version == Version::V1alpha1 {
            // What the version does not have the API server takes away.
            set.spec.lifecycle = None;
            set.spec.ordinals = None;
            set.spec.persistent_volume_claim_retention_policy = None;
            set.spec.reserve_ordinals.clear();
            set.spec.scale_strategy = None;
            set.spec.volume_claim_update_strategy.type_ = ClaimUpdateType::default();
        }
        Ok(set)
    }

    fn default(object: &mut Object, old: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        super::default::default(object, old, env.version, env.gates);
        Ok(())
    }

    fn needs_to_validate(&self, old: Option<&Self>, env: &Env, _: &Lookups) -> Needs {
        let mut objects = classes_to_look_up(self, old, env.gates);
        objects.extend(erased::stored(self.metadata.name.as_deref(), env));
        Needs {
            objects,
            ..Needs::default()
        }
    }

    fn validate(&self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(self, None, env.gates, found).into_result()
    }

    fn validate_update(&self, old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(self, Some(old), env.gates, found).into_result()
    }

    fn warnings(&self, env: &Env, found: &Lookups) -> Vec<String> {
        erased::warnings(self.metadata.name.as_deref(), env, found)
    }

    fn refuse_deletion(&self, gates: Gates) -> Option<String> {
        deletion_protection::refusal(&self.metadata, self.spec.replicas.unwrap_or(1), gates)
    }
}
