//! v1alpha1 and v1beta1 of NodeImage: v1beta1 adds how a pull secret is used. `tags` is a required list in both, so a
//! null becomes an empty list.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, each};
use serde_json::Value;

pub const RULES: Rules = Rules {
    only_v1beta1: &["spec.images{}.pullSecrets[].mode"],
    up: lists,
    down: lists,
    ..Rules::SAME
};

pub fn lists(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    for path in ["spec.images{}.tags", "status.imageStatuses{}.tags"] {
        each(object, path, &mut |image, name| {
            if image.get(name).is_some_and(Value::is_null) {
                image.insert(name.to_owned(), Value::Array(Vec::new()));
            }
        });
    }
    Ok(())
}
