//! In-place update: changing a running Pod instead of replacing it.

use super::IntOrPercent;

words! {
    /// How a Pod is brought to a new revision.
    pub enum PodUpdatePolicy {
        /// It is deleted and made anew.
        ReCreate,
        /// In place when the change allows it, otherwise made anew.
        InPlaceIfPossible,
        /// In place, or not at all.
        InPlaceOnly,
    }
}

api! {
    /// How an update in place goes.
    pub struct InPlaceUpdateStrategy {
        /// Seconds between making a Pod not ready and changing it.
        grace_period_seconds: i32,
        /// Most nodes that pull the new image ahead of the update at the same time.
        image_pre_download_parallelism: Option<IntOrPercent>,
        /// Seconds after which one pull ahead of the update is given up.
        image_pre_download_timeout_seconds: Option<i32>,
        /// Updated and ready Pods there must be before images are pulled for the others.
        image_pre_download_min_updated_ready_pods: Option<i32>,
    }
}
