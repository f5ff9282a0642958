//! Whether containers of a Pod run the images that its spec names.
//!
//! 1. Every container has a status.
//! 2. Images that are named by digest run when the status has the same digest of the same repository. As long as all of them are named so, nothing else is asked.
//! 3. Otherwise the Pod's record of the update says what ran before. A container that still runs that, under another name than the spec has, is not there yet.
//!    Without a record nothing was updated.

use kruise_api::pod::Pod;
use kruise_api::pod::status::ContainerStatus;

use super::records::UpdateState;
use crate::shared::image_name::Image;

/// Whether these containers run what the spec names; `state` is the record of the last update, if there was one.
pub(super) fn is_consistent(pod: &Pod, state: Result<Option<&UpdateState>, ()>, names: impl Fn(&str) -> bool) -> bool {
    let containers = &pod.spec.template.containers;
    let statuses = &pod.status.container_statuses;
    if containers.len() != statuses.len() {
        return false;
    }
    let status = |name: &str| statuses.iter().find(|status| status.name == *name);
    let ours = || containers.iter().filter(|container| names(&container.name));
    for container in ours() {
        let Some(wanted) = digest(&container.image) else {
            return runs_no_old_image(
                state,
                ours().map(|container| (&*container.name, &*container.image)),
                status,
            );
        };
        let running = status(&container.name).and_then(|status| {
            let id = &*status.image_id;
            digest(id.split_once("://").map_or(id, |(_, id)| id))
        });
        if running != Some(wanted) {
            return false;
        }
    }
    true
}

fn runs_no_old_image<'a>(
    state: Result<Option<&UpdateState>, ()>,
    containers: impl Iterator<Item = (&'a str, &'a str)>,
    status: impl Fn(&str) -> Option<&'a ContainerStatus>,
) -> bool {
    let Ok(state) = state else { return false };
    let Some(state) = state else { return true };
    let mut containers = containers;
    containers.all(|(name, image)| {
        let before = state.last_container_statuses.get(name);
        let now = status(name);
        before
            .zip(now)
            .is_none_or(|(before, now)| before.image_id != *now.image_id || is_same_image(image, &now.image))
    })
}

/// Repository and digest of an image that is named by one.
fn digest(image: &str) -> Option<(String, String)> {
    // Most are not, and need not be taken apart.
    let image = image.contains('@').then(|| Image::parse(image).ok()).flatten()?;
    Some((image.repository(), image.tag))
}

/// The kubelet adds what Docker adds to a name.
fn is_same_image(one: &str, other: &str) -> bool {
    one == other || Image::parse(one).is_ok_and(|one| Image::parse(other).is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fixture::{Fixture as _, running_pod};
    use serde_json::json;

    #[test]
    fn containers_run_what_the_spec_names() {
        let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
        let state: UpdateState =
            serde_json::from_value(json!({"lastContainerStatuses": {"log": {"imageID": "old"}}})).unwrap();
        let unknown: UpdateState = serde_json::from_value(json!({"lastContainerStatuses": {"log": {}}})).unwrap();
        for (what, image, status, id, state, expected) in [
            ("nothing was updated", "a:1", "a:0", "old", Ok(None), true),
            ("the old one runs", "a:2", "a:1", "old", Ok(Some(&state)), false),
            ("another ID", "a:2", "a:1", "new", Ok(Some(&state)), true),
            (
                "the same ID under its new name",
                "a:2",
                "docker.io/library/a:2",
                "old",
                Ok(Some(&state)),
                true,
            ),
            ("what ran was not known", "a:2", "a:1", "", Ok(Some(&unknown)), false),
            ("unreadable", "a:1", "a:1", "x", Err(()), false),
            (
                "digest",
                &format!("a@{}", digest("1")),
                "",
                &format!("docker-pullable://docker.io/library/a@{}", digest("1")),
                Err(()),
                true,
            ),
            (
                "other digest",
                &format!("a@{}", digest("1")),
                "",
                &format!("a@{}", digest("2")),
                Ok(None),
                false,
            ),
            (
                "other repository",
                &format!("a@{}", digest("1")),
                "",
                &format!("b@{}", digest("1")),
                Ok(None),
                false,
            ),
        ] {
            let pod = running_pod("p")
                .running("main", "m:1")
                .running("log", image)
                .status("log", "image", status)
                .status("log", "imageID", id);
            assert_eq!(
                is_consistent(&pod.typed(), state, |name| name == "log"),
                expected,
                "{what}"
            );
            let short = pod.set("/status/containerStatuses", json!([]));
            assert!(!is_consistent(&short.typed(), state, |name| name == "log"), "{what}");
        }
    }
}
