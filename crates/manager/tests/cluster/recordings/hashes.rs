//! Hashes of the revisions of DaemonSets are each implementation's own affair. Here they are called `r1`, `r2`, … in the order in which they came, as in the recording.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

const LABEL: &str = "controller-revision-hash";

/// The hashes of a scenario so far, the oldest first. Hashes of other kinds have to be the same, so there are none of them.
#[derive(Default)]
pub(super) struct Hashes(Mutex<Vec<String>>);

impl Hashes {
    /// Learns of a new revision; a step of a user makes one at most.
    pub(super) async fn learn(&self, revisions: Api<ControllerRevision>) -> kube::Result<()> {
        for revision in revisions.list(&ListParams::default()).await?.items {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(hash) = revision.labels().get(LABEL).filter(|hash| !known.contains(hash)) {
                known.push(hash.clone());
            }
        }
        Ok(())
    }

    /// The same with the names of hashes in their place.
    pub(super) fn named<T: Serialize + DeserializeOwned>(&self, value: &T) -> T {
        let mut text = serde_json::to_string(value).unwrap();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, hash) in known.iter().enumerate() {
            text = text.replace(hash, &format!("r{}", number + 1));
        }
        serde_json::from_str(&text).unwrap()
    }
}
