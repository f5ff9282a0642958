//! The metadata of an object: its name, labels and annotations. The API server says the same before it asks us; whoever calls
//! the rules without one (tests, a dry look at a manifest) gets the whole answer here.

use super::label::{key_faults, subdomain_faults, value_faults};
use crate::field_error::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Everything that is wrong with the metadata of an object whose name has to be a DNS subdomain.
pub fn validate(metadata: &ObjectMeta) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    // Without a name the API server makes one from `generateName`.
    if let Some(name) = metadata.name.as_deref().filter(|name| !name.is_empty()) {
        let at = path.child("name");
        errors.extend(
            subdomain_faults(name)
                .iter()
                .map(|fault| FieldError::invalid(&at, name, fault)),
        );
    }
    let at = path.child("labels");
    for (key, value) in metadata.labels.iter().flatten() {
        errors.extend(
            key_faults(key)
                .iter()
                .map(|fault| FieldError::invalid(&at, key.as_str(), fault)),
        );
        errors.extend(
            value_faults(value)
                .iter()
                .map(|fault| FieldError::invalid(&at, value.as_str(), fault)),
        );
    }
    let at = path.child("annotations");
    for key in metadata.annotations.iter().flatten().map(|(key, _)| key) {
        let faults = key_faults(&key.to_lowercase());
        errors.extend(faults.iter().map(|fault| FieldError::invalid(&at, key.as_str(), fault)));
    }
    errors
}
