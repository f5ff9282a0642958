//! A BroadcastJob on its way into the cluster: [`default`](super::default) and [`validate`](super::validate).

use kruise_api::read::{ReadError, from_slice};

use super::{Submitted, default, validate};
use crate::admission::{Admit, Env, Lookups, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;
use crate::shared::validate::pod_template;

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(object: &mut Object, old: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        default::default(object, old, env.gates);
        Ok(())
    }

    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        if old.is_some_and(|old| old.spec.template == self.spec.template) {
            return Vec::new();
        }
        vec![Template {
            path: Path::new("spec").child("template"),
            template: pod_template::object(&self.spec.template),
        }]
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, found).into_result()
    }
}
