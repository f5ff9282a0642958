//! A DaemonSet on its way into the cluster: [`default`](super::default) and [`validate`](super::validate).
//!
//! Its two versions have the same shape; v1alpha1 only has no `scaleStrategy`. What is wrong with a new DaemonSet is answered with the code 500, as its users know
//! it. Deletions are not protected.

use kruise_api::daemonset::v1beta1::DaemonSetSpec;
use kruise_api::read::{ReadError, from_slice};

use super::validate::validate;
use crate::admission::{self, Admit, Env, Lookups, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;
use crate::shared::validate::pod_template::object;

/// A DaemonSet as a user submitted it.
pub type Submitted = admission::Submitted<DaemonSetSpec>;

/// The code of an answer to a new DaemonSet that is wrong.
const INVALID_WHEN_NEW: u16 = 500;

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(object: &mut Object, _: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        super::default::default(object, env.version);
        Ok(())
    }

    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        if old.is_some_and(|old| old.spec.template == self.spec.template) {
            return Vec::new();
        }
        vec![Template {
            path: Path::new("spec").child("template"),
            template: object(&self.spec.template),
        }]
    }

    fn validate(&self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        let refusal = validate(self, None, env.version, found).into_result();
        refusal.map_err(|refusal| Refusal {
            code: Some(INVALID_WHEN_NEW),
            ..refusal
        })
    }

    fn validate_update(&self, old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(self, Some(old), env.version, found).into_result()
    }
}
