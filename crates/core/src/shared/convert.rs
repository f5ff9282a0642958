//! What the rules of a kind are made of, and what a conversion may report.
//!
//! v1beta1 is the hub. Most rules are lists: fields that were renamed, fields that only one version has. What is left
//! (a field that became an annotation, a value that changes its meaning) is a function per direction.
//!
//! - A field that neither version knows is kept where it is, at any depth.
//! - A field that only the *other* version knows does not belong into the source; it is dropped before the rules run,
//!   as the API server would have done, so that it cannot pose as a converted value.
//! - A value of a wrong type is never a reason to fail: a conversion error blocks every read of the list that holds
//!   the object. It is carried over as it is, or left out with a warning where it would have to be understood.

use crate::shared::tree::{Object, drop_field, rename, rename_back};
use thiserror::Error;

/// Why an object cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConvertError {
    #[error("not a Kubernetes object: `{0}` is missing or has a wrong type")]
    Malformed(&'static str),
    #[error("{api_version} has no kind {kind} that can be converted")]
    UnknownKind { api_version: String, kind: String },
    #[error("the object is already {api_version}, there is nothing to convert")]
    SameVersion { api_version: String },
    #[error("{field} cannot be expressed in {version}: {advice}")]
    Inexpressible {
        field: &'static str,
        version: &'static str,
        advice: &'static str,
    },
}

/// A value that did not make it into the other version, for the log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: Invalid value: {value}: {reason}")]
pub struct Warning {
    pub field: String,
    pub value: String,
    pub reason: &'static str,
}

impl Warning {
    /// A warning about an annotation of the object.
    pub fn annotation(name: &str, value: &str, reason: &'static str) -> Self {
        Self {
            field: format!("metadata.annotations[{name}]"),
            value: format!("{value:?}"),
            reason,
        }
    }
}

/// A step of a conversion that is more than moving a field.
pub type Step = fn(&mut Object, &mut Vec<Warning>) -> Result<(), ConvertError>;

/// The difference between v1alpha1 and v1beta1 of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Path in v1alpha1, and the last field's name in v1beta1.
    pub renamed: &'static [(&'static str, &'static str)],
    pub only_v1alpha1: &'static [&'static str],
    pub only_v1beta1: &'static [&'static str],
    /// v1alpha1 to v1beta1, after the renames.
    pub up: Step,
    /// v1beta1 to v1alpha1, before the renames.
    pub down: Step,
}

impl Rules {
    /// Both versions have the same fields.
    pub const SAME: Self = Self {
        renamed: &[],
        only_v1alpha1: &[],
        only_v1beta1: &[],
        up: |_, _| Ok(()),
        down: |_, _| Ok(()),
    };

    /// Turns v1alpha1 into v1beta1 in place.
    pub fn convert_up(&self, object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
        drop_all(object, self.only_v1beta1);
        for (old, new) in self.renamed {
            rename(object, old, new);
        }
        (self.up)(object, warnings)?;
        drop_all(object, self.only_v1alpha1);
        Ok(())
    }

    /// Turns v1beta1 into v1alpha1 in place.
    pub fn convert_down(&self, object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
        drop_all(object, self.only_v1alpha1);
        (self.down)(object, warnings)?;
        for (old, new) in self.renamed {
            rename_back(object, old, new);
        }
        drop_all(object, self.only_v1beta1);
        Ok(())
    }
}

fn drop_all(object: &mut Object, paths: &[&str]) {
    for path in paths {
        drop_field(object, path);
    }
}
