//! All annotations of the Pods that are to be updated next, read from the API server. The cache keeps only some, because they can be large.

use crate::platform::live;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kruise_api::{kind::Kind as _, pod::Pod};
use kruise_core::sidecarset::PodVersion;
use kruise_runtime::error::Error;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// How many Pods are read at the same time.
const AT_ONCE: usize = 16;

type ByPod = BTreeMap<PodVersion, BTreeMap<String, String>>;

/// Annotations by set and Pod.
pub(super) struct Annotations {
    client: Client,
    by_set: Mutex<HashMap<String, ByPod>>,
}

#[derive(Deserialize)]
struct Found {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Annotations {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            by_set: Mutex::default(),
        }
    }

    /// Returns what was read for a set.
    pub(super) fn of(&self, set: &str) -> ByPod {
        self.by_set.lock().get(set).cloned().unwrap_or_default()
    }

    /// Reads what is not known yet of these Pods, and lets go of the others.
    pub(super) async fn read(&self, set: &str, wanted: Vec<PodVersion>) -> Result<(), Error> {
        let mut known = self.of(set);
        known.retain(|pod, _| wanted.contains(pod));
        let unknown: Vec<PodVersion> = wanted.into_iter().filter(|pod| !known.contains_key(pod)).collect();
        let read: Vec<_> = stream::iter(unknown)
            .map(|pod| self.read_one(pod))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        known.extend(read.into_iter().flatten());
        self.by_set.lock().insert(set.to_owned(), known);
        Ok(())
    }

    pub(super) fn forget(&self, set: &str) {
        self.by_set.lock().remove(set);
    }

    /// A Pod that has changed meanwhile is read at its new version, and used when the cache shows that.
    async fn read_one(&self, pod: PodVersion) -> Result<Option<(PodVersion, BTreeMap<String, String>)>, Error> {
        let read = live::read::<Found>(&self.client, Pod::RESOURCE, &pod.namespace, &pod.name);
        let Some(found) = read.await? else {
            return Ok(None);
        };
        let version = found.metadata.resource_version.parse().unwrap_or_default();
        Ok(Some((PodVersion { version, ..pod }, found.metadata.annotations)))
    }
}
