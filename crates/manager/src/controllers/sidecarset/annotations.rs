//! All annotations of the Pods that are to be updated next, read from the API server. The cache keeps only some, because they can be large.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kruise_core::sidecarset::PodVersion;
use kruise_runtime::error::{Class, Error};
use kube::{
    Client,
    core::{Request, params::GetParams},
};
use parking_lot::Mutex;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use tokio::time::timeout;

/// How long a Pod may take to be read, and how many are read at the same time.
const DEADLINE: Duration = Duration::from_secs(10);
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
        let path = format!("/api/v1/namespaces/{}/pods", pod.namespace);
        let request = Request::new(path).get(&pod.name, &GetParams::default());
        let request = request.map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        let late = |_| Error::new(Class::Transient, "a Pod could not be read in time");
        let found: Found = match timeout(DEADLINE, self.client.request(request)).await.map_err(late)? {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let version = found.metadata.resource_version.parse().unwrap_or_default();
        Ok(Some((PodVersion { version, ..pod }, found.metadata.annotations)))
    }
}
