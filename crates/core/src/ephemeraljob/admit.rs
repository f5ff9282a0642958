//! An EphemeralJob on its way into the cluster: [`validate`](super::validate). Nothing is defaulted.

use kruise_api::read::{ReadError, from_slice};

use super::{Submitted, validate};
use crate::admission::{Admit, Env, Lookups, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        let job: Self = from_slice(json)?;
        let containers = &job.spec.template.ephemeral_containers;
        if !containers.is_empty() {
            containers.view().map_err(|error| ReadError {
                path: format!("spec.template.ephemeralContainers{}", error.path),
                ..error
            })?;
        }
        Ok(job)
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        if old.is_some_and(|old| old.spec.template == self.spec.template) {
            return Vec::new();
        }
        let template = validate::stand_in(&self.spec.template.ephemeral_containers.value());
        let template = template.map(|template| Template {
            path: Path::root(),
            template,
        });
        template.into_iter().collect()
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, None, found).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, Some(old), found).into_result()
    }
}
