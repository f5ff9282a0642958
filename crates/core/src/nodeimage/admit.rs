//! A NodeImage on its way into the cluster: [`default`](super::default) and [`validate`](super::validate).

use kruise_api::read::{ReadError, from_slice};

use super::{Submitted, default, validate};
use crate::admission::{Admit, Env, Lookups, Refusal, Version};
use crate::shared::tree::Object;

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(object: &mut Object, _: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        default::default(object, env.now);
        Ok(())
    }

    fn validate(&self, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        validate::validate(self).into_result()
    }
}
