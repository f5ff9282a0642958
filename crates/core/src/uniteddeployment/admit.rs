//! A UnitedDeployment on its way into the cluster: [`default`](super::default), [`validate`](super::validate), and protection against deletion.

use kruise_api::gates::Gates;
use kruise_api::raw::PodTemplate;
use kruise_api::read::{ReadError, from_slice};
use serde_json::Value;

use super::{Submitted, default, validate};
use crate::admission::{Admit, Env, Lookups, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;
use crate::shared::validate::{deletion_protection, pod_template};

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(object: &mut Object, old: Option<&Object>, env: &Env, _: &Lookups) -> Result<(), Refusal> {
        default::default(object, old, env.gates);
        Ok(())
    }

    /// Only that of a Deployment is looked into; of the others that is left to those who make the Pods.
    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        let deployment = |object: &Self| object.spec.template.deployment_template.clone();
        let Some(template) = deployment(self).filter(|template| old.and_then(deployment).as_ref() != Some(template))
        else {
            return Vec::new();
        };
        let spec = template.spec.value();
        let pod = PodTemplate::from_value(spec.get("template").unwrap_or(&Value::Null));
        let path = Path::new("spec").child("template").child("deploymentTemplate");
        vec![Template {
            path: path.child("spec").child("template"),
            template: pod_template::object(&pod),
        }]
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, None, found).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, Some(old), found).into_result()
    }

    fn refuse_deletion(&self, gates: Gates) -> Option<String> {
        deletion_protection::refusal(&self.metadata, self.spec.replicas.unwrap_or(1), gates)
    }
}
