//! Images of containers.

use super::{containers, pod_specs_or_error};
use crate::{change::Decision, server::Object};
use anyhow::{Result, bail};
use serde_json::{Value, json};

/// All containers.
const ALL: &str = "*";

/// Reads pairs of containers and images.
///
/// # Errors
/// When there is none, or `*` is not alone.
pub(super) fn read(pairs: &[String]) -> Result<Vec<(String, String)>> {
    let mut images = Vec::new();
    for pair in pairs {
        match pair.split_once('=') {
            Some((container, image)) if !container.is_empty() && !image.is_empty() => {
                images.push((container.to_owned(), image.to_owned()));
            }
            _ => bail!("{pair:?} is not of the form CONTAINER=IMAGE"),
        }
    }
    if images.is_empty() {
        bail!("at least one image update is required");
    }
    if images.len() > 1 && images.iter().any(|(container, _)| container == ALL) {
        bail!("all containers are already specified by *, but saw more than one container_name=container_image pairs");
    }
    Ok(images)
}

/// The object with these images in its containers and init containers.
///
/// # Errors
/// When it has no container of a name.
pub(super) fn decide(object: &Object, images: &[(String, String)]) -> Result<Decision> {
    let mut after = object.value.clone();
    for (container, image) in images {
        let mut is_found = false;
        for pod in pod_specs_or_error(object)? {
            for field in ["containers", "initContainers"] {
                let all = containers(&mut after, &pod, field);
                for found in all.filter(|found| container == ALL || found["name"] == **container) {
                    put(found, image);
                    is_found = true;
                }
            }
        }
        if !is_found {
            bail!("unable to find container named {container:?}");
        }
    }
    Ok(Decision::Become(after))
}

fn put(container: &mut Value, image: &str) {
    container["image"] = json!(image);
}
