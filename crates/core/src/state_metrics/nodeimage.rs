//! NodeImage.

use kruise_api::nodeimage::CachedNodeImage;

use super::{Family, count, sampled};

sampled!(CachedNodeImage, FAMILIES);

const FAMILIES: &[Family<CachedNodeImage>] = &[
    Family::CREATED,
    Family::LABELS,
    Family::ANNOTATIONS,
    Family::GENERATION,
    Family::value(
        "spec_images",
        "Images that the node is to have, without their tags.",
        |node| count(node.spec.images.len()),
    ),
    Family::value("status_desired", "Tags of images that the node is to have.", |node| {
        Some(node.status.desired.into())
    }),
    Family::value("status_waiting", "Tags that wait.", |node| {
        Some(node.status.waiting.into())
    }),
    Family::value("status_pulling", "Tags that are being pulled.", |node| {
        Some(node.status.pulling.into())
    }),
    Family::value("status_succeeded", "Tags that are there.", |node| {
        Some(node.status.succeeded.into())
    }),
    Family::value("status_failed", "Tags that could not be pulled.", |node| {
        Some(node.status.failed.into())
    }),
];
