//! What to do about the images of a NodeImage, and what to report.
//!
//! - A tag that is finished by the NodeImage's own status, for the version that is asked for, is taken over from there: nothing is
//!   pulled twice because the daemon was restarted.
//! - Any other tag is worked on, once for each version. Another version ends the work on the one before.
//! - What is no longer asked for is dropped, work and report alike.

use std::collections::BTreeMap;

use kruise_api::nodeimage::v1beta1::NodeImage;
use kruise_api::nodeimage::{ImagePullPhase, ImageStatus, ImageTagSpec, ImageTagStatus, NodeImageStatus};

/// Name and tag of an image.
pub(super) type ImageKey = (String, String);

/// What the daemon knows of a tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// What is reported.
    pub(super) status: ImageTagStatus,
    /// Whether somebody works on it.
    pub(super) working: bool,
}

/// What to do about one tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Go on as before.
    Keep,
    /// Nothing to do: it was finished before.
    TakeOver(ImageTagStatus),
    /// Begin, and end what is done for another version.
    Begin(ImageTagStatus),
}

/// What to do about a tag that is asked for.
pub(super) fn step(asked: &ImageTagSpec, reported: Option<&ImageTagStatus>, known: Option<&Known>) -> Step {
    let finished = reported.filter(|status| status.version == asked.version && status.completion_time.is_some());
    let current = known.filter(|known| known.status.version == asked.version);
    match (finished, current) {
        (_, Some(current)) if !current.working => Step::Keep,
        // The manager has given us up meanwhile, and may have told others.
        (Some(finished), _) => Step::TakeOver(finished.clone()),
        (None, Some(_)) => Step::Keep,
        (None, None) => Step::Begin(ImageTagStatus {
            tag: asked.tag.clone(),
            phase: ImagePullPhase::Waiting,
            version: asked.version,
            ..ImageTagStatus::default()
        }),
    }
}

/// The entry of a tag in the NodeImage's status.
pub(super) fn reported<'a>(image: &'a NodeImage, name: &str, tag: &str) -> Option<&'a ImageTagStatus> {
    let statuses = &image.status.as_ref()?.image_statuses;
    statuses.get(name)?.tags.iter().find(|status| status.tag == tag)
}

/// The report on all images that are asked for, sorted by name and tag.
pub(super) fn report<'a>(
    image: &NodeImage,
    known: impl IntoIterator<Item = (&'a ImageKey, &'a ImageTagStatus)>,
) -> NodeImageStatus {
    let mut status = NodeImageStatus {
        desired: image.spec.images.values().map(|image| image.tags.len() as i32).sum(),
        first_sync_status: image
            .status
            .as_ref()
            .and_then(|status| status.first_sync_status.clone()),
        ..NodeImageStatus::default()
    };
    let mut statuses: BTreeMap<String, ImageStatus> = BTreeMap::new();
    for ((name, _), tag) in known {
        match tag.phase {
            ImagePullPhase::Succeeded => status.succeeded += 1,
            ImagePullPhase::Failed => status.failed += 1,
            ImagePullPhase::Pulling => status.pulling += 1,
            _ => status.waiting += 1,
        }
        statuses.entry(name.clone()).or_default().tags.push(tag.clone());
    }
    for image in statuses.values_mut() {
        image.tags.sort_by(|one, other| one.tag.cmp(&other.tag));
    }
    status.image_statuses = statuses;
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(version: i64, phase: ImagePullPhase, finished: bool) -> ImageTagStatus {
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        ImageTagStatus {
            tag: "1".to_owned(),
            phase,
            version,
            completion_time: finished.then_some(time),
            ..ImageTagStatus::default()
        }
    }

    fn known(version: i64, working: bool) -> Known {
        Known {
            status: status(version, ImagePullPhase::Pulling, !working),
            working,
        }
    }

    #[test]
    fn given_a_tag_then_the_work_on_it_is_begun_kept_or_taken_over() {
        let asked = ImageTagSpec {
            tag: "1".to_owned(),
            version: 2,
            ..ImageTagSpec::default()
        };
        let done = status(2, ImagePullPhase::Succeeded, true);
        let under_way = status(2, ImagePullPhase::Pulling, false);
        let before = status(1, ImagePullPhase::Succeeded, true);
        let begin = Step::Begin(status(2, ImagePullPhase::Waiting, false));
        for (reported, known, expected) in [
            (None, None, begin.clone()),
            (Some(&before), None, begin.clone()),
            (Some(&under_way), None, begin.clone()),
            (Some(&done), None, Step::TakeOver(done.clone())),
            (None, Some(known(2, true)), Step::Keep),
            (Some(&under_way), Some(known(2, true)), Step::Keep),
            (None, Some(known(2, false)), Step::Keep),
            (Some(&done), Some(known(2, false)), Step::Keep),
            (Some(&done), Some(known(2, true)), Step::TakeOver(done.clone())),
            (Some(&before), Some(known(1, false)), begin.clone()),
            (None, Some(known(1, true)), begin.clone()),
        ] {
            assert_eq!(
                step(&asked, reported, known.as_ref()),
                expected,
                "{reported:?} {known:?}"
            );
        }
    }

    #[test]
    fn given_statuses_then_the_report_counts_and_sorts_them() {
        let image: NodeImage = serde_json::from_value(json!({
            "spec": {"images": {"b": {"tags": [{"tag": "2"}, {"tag": "1"}]}, "a": {"tags": [{"tag": "9"}, {"tag": "8"}]}, "c": {"tags": []}}}
        }))
        .expect("a NodeImage");
        let entries = [
            ("b", "2", ImagePullPhase::Succeeded),
            ("b", "1", ImagePullPhase::Failed),
            ("a", "9", ImagePullPhase::Pulling),
            ("a", "8", ImagePullPhase::Waiting),
        ]
        .map(|(name, tag, phase)| {
            let status = ImageTagStatus {
                tag: tag.to_owned(),
                phase,
                ..ImageTagStatus::default()
            };
            ((name.to_owned(), tag.to_owned()), status)
        });
        let report = report(&image, entries.iter().map(|(key, status)| (key, status)));
        let counts = (
            report.desired,
            report.succeeded,
            report.failed,
            report.pulling,
            report.waiting,
        );
        assert_eq!(counts, (4, 1, 1, 1, 1));
        let tags: Vec<_> = report.image_statuses["b"]
            .tags
            .iter()
            .map(|tag| tag.tag.as_str())
            .collect();
        assert_eq!(tags, ["1", "2"]);
        assert!(!report.image_statuses.contains_key("c"));
    }
}
