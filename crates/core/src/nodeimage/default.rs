//! What is written into a NodeImage where nothing is said.
//!
//! | field of a tag | default |
//! |---|---|
//! | `createdAt` | now |
//! | `pullPolicy.timeoutSeconds`, `pullPolicy.backoffLimit` | 600, 3 |
//!
//! Tags are sorted.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::shared::image_pull::default_pull_policy;
use crate::shared::seconds::to_the_second;
use crate::shared::tree::{Object, child, child_or_new, fill};

/// Completes a NodeImage.
pub fn default(object: &mut Object, now: Timestamp) {
    // Where there is no spec, the API server has nothing to say against it either.
    let images = child_or_new(object, "spec").and_then(|spec| child(spec, "images"));
    for image in images.into_iter().flat_map(|images| images.values_mut()) {
        let Some(Value::Array(tags)) = image.get_mut("tags") else {
            continue;
        };
        for tag in tags.iter_mut().filter_map(Value::as_object_mut) {
            fill(tag, "createdAt", json!(to_the_second(now)));
            default_pull_policy(tag);
        }
        let name = |tag: &Value| tag.get("tag").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !tags.is_sorted_by_key(name) {
            tags.sort_by_key(name);
        }
    }
}
