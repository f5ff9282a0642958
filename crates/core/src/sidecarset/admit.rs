//! A SidecarSet on its way into the cluster: [`default`](super::default) and [`validate`](super::validate). Both versions are judged as v1beta1.

use super::convert;
use super::validate::{needs, template, validate};
use crate::admission::{Admit, Env, Lookups, Needs, Refusal, Template, Version};
use crate::field_error::Path;
use crate::shared::tree::Object;
use kruise_api::kind::Kind as _;
use kruise_api::read::{ReadError, from_slice, from_value};
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::Value;

/// A SidecarSet as it was submitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submitted(pub SidecarSet);

impl Admit for Submitted {
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError> {
        if version == Version::V1beta1 {
            return from_slice(json).map(Self);
        }
        let mut object: Object = from_slice(json)?;
        // What cannot be converted is left as it is, and told by its type.
        let _ = convert::up(&mut object, &mut Vec::new());
        object.insert("apiVersion".to_owned(), SidecarSet::API_VERSION.into());
        from_value(&Value::Object(object)).map(Self)
    }

    fn default(object: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        super::default::default(object);
        Ok(())
    }

    fn needs_to_validate(&self, _: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        needs(&self.0)
    }

    fn templates(&self, old: Option<&Self>) -> Vec<Template> {
        let template = template(&self.0, old.map(|old| &old.0));
        let template = template.map(|template| Template {
            path: Path::root(),
            template,
        });
        template.into_iter().collect()
    }

    fn validate(&self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(&self.0, None, env.gates, found).into_result()
    }

    fn validate_update(&self, old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        validate(&self.0, Some(&old.0), env.gates, found).into_result()
    }
}
