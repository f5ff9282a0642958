//! A PodProbeMarker on its way into the cluster: [`validate`](super::validate). Nothing is defaulted.

use kruise_api::read::{ReadError, from_slice};

use super::{Submitted, validate};
use crate::admission::{Admit, Env, Lookups, Refusal, Version};
use crate::shared::tree::Object;

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn validate(&self, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        validate::validate(self).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        let mut errors = validate::validate(self);
        errors.0.extend(validate::forbidden(self, old));
        errors.into_result()
    }
}
