//! Names of jobs become values of labels: no dots, and not too long.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::field_error::{FieldError, Path};

/// Most characters of the value of a label.
const LONGEST: usize = 63;

/// What is wrong with the name of a job of this kind.
pub fn validate(metadata: &ObjectMeta, kind: &str) -> Vec<FieldError> {
    let at = Path::new("metadata").child("name");
    let mut errors = Vec::new();
    let Some(name) = metadata.name.as_deref().filter(|name| !name.is_empty()) else {
        return errors;
    };
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let detail = format!(
            "{kind} name must consist of alphanumeric characters or '-' (e.g. 'example-com', regex used for validation is '^[a-zA-Z0-9\\-]+$')"
        );
        errors.push(FieldError::invalid(&at, name, &detail));
    }
    if name.len() > LONGEST {
        let detail = format!("must be no more than {LONGEST} characters");
        errors.push(FieldError::invalid(&at, name, &detail));
    }
    errors
}
