//! An AdvancedCronJob on its way into the cluster: [`default`](super::default) and [`validate`](super::validate).

use kruise_api::raw::PodTemplate;
use kruise_api::read::{ReadError, from_slice};
use serde_json::Value;

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
        let template = &self.spec.template;
        // A template that has changed is refused anyway.
        if old.is_some() {
            return Vec::new();
        }
        let at = Path::new("spec").child("template");
        let job = (!template.job_template.is_empty()).then(|| {
            let job = template.job_template.value();
            let pod = job.pointer("/spec/template").unwrap_or(&Value::Null);
            ("jobTemplate", PodTemplate::from_value(pod))
        });
        let broadcast = template.broadcast_job_template.as_ref();
        let broadcast = broadcast.map(|job| ("broadcastJobTemplate", job.spec.template.clone()));
        let templates = job.into_iter().chain(broadcast);
        templates
            .map(|(field, pod)| Template {
                path: at.child(field).child("spec").child("template"),
                template: pod_template::object(&pod),
            })
            .collect()
    }

    fn validate(&self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate::validate(self, found).into_result()
    }

    fn validate_update(&self, old: &Self, _: &Env, found: &Lookups) -> Result<(), Refusal> {
        let mut errors = validate::validate(self, found);
        errors.0.extend(validate::forbidden(self, old));
        errors.into_result()
    }

    fn warnings(&self, env: &Env, _: &Lookups) -> Vec<String> {
        validate::warnings(self, env.now)
    }
}
