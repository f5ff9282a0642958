//! A CloneSet on its way into the cluster: [`default`](super::default), [`validate`](super::validate), and protection against deletion.

use super::validate::{pods_to_look_up, validate};
use super::version::Submitted;
use crate::admission::{Admit, Env, Lookups, Needs, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;
use crate::shared::validate::deletion_protection;
use crate::shared::validate::pod_template::with_claims;
use kruise_api::{
    gates::Gates,
    read::{ReadError, from_slice},
};

impl Admit for Submitted {
    /// Pod and claim templates are not looked into.
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError> {
        Ok(match version {
            Version::V1alpha1 => Self::V1alpha1(Box::new(from_slice(json)?)),
            Version::V1beta1 => Self::V1beta1(Box::new(from_slice(json)?)),
        })
    }

    fn default(object: &mut Object, old: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        super::default::default(object, old, env.version, env.gates);
        Ok(())
    }

    fn needs_to_validate(&self, old: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        let pods = pods_to_look_up(self, old);
        Needs {
            pods: pods.into_iter().map(str::to_owned).collect(),
            ..Needs::default()
        }
    }

    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        if old.is_some_and(|old| old.template() == self.template() && old.claims() == self.claims()) {
            return Vec::new();
        }
        vec![Template {
            path: Path::new("spec").child("template"),
            template: with_claims(self.template(), self.claims()),
        }]
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(self, None, found).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(self, Some(old), found).into_result()
    }

    fn refuse_deletion(&self, gates: Gates) -> Option<String> {
        deletion_protection::refusal(self.metadata(), self.replicas(), gates)
    }
}
