//! Writes of simulated kubelets and of the local storage, made to be cheap for the server and sure to arrive.
//!
//! Every call has a deadline. Overload (429), server errors and broken connections are tried again with growing waits; a refusal that
//! another try cannot change is told to the caller. Replies carry metadata only: nobody here needs the whole object back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, Request};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde_json::Value;

/// Field manager of all writes.
const WRITER: &str = "kruise-sim";
const DEADLINE: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const TRIES: u32 = 8;
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Why a write did not happen.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The object is gone.
    Gone,
    /// Another object has its name now, or others wrote too often at the same time.
    Conflict,
    /// The server does not want it, and will not want it the next time either.
    Invalid(String),
    /// Not reached in all tries.
    Unreachable(String),
}

/// Counts of what the simulator asked of the server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) patches: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) retries: AtomicU64,
}

#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) client: Client,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Deserialize)]
struct Reply {
    metadata: ReplyMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplyMetadata {
    resource_version: String,
}

impl Calls {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            counters: Arc::default(),
        }
    }

    /// Patches a Pod's status and returns the version it has now.
    pub(crate) async fn patch_pod_status(&self, namespace: &str, name: &str, patch: Value) -> Result<u64, Refused> {
        self.counters.patches.fetch_add(1, Ordering::Relaxed);
        let pods = Pod::url_path(&(), Some(namespace));
        let patch = Patch::Strategic(patch);
        self.insist(|| {
            let params = PatchParams {
                field_manager: Some(WRITER.to_owned()),
                ..PatchParams::default()
            };
            let request = Request::new(&pods).patch_subresource("status", name, &params, &patch);
            async {
                let mut request = request.map_err(kube::Error::BuildRequest)?;
                if let Ok(accept) = METADATA_ONLY.parse() {
                    request.headers_mut().insert("accept", accept);
                }
                let reply: Reply = self.client.request(request).await?;
                Ok(reply.metadata.resource_version.parse().unwrap_or(0))
            }
        })
        .await
    }

    /// Takes a Pod whose containers have stopped out of the API, unless finalizers hold it.
    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Refused> {
        self.counters.deletes.fetch_add(1, Ordering::Relaxed);
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
        let path = Pod::url_path(&(), Some(namespace));
        self.insist(|| {
            let request = Request::new(&path).delete(name, &params);
            async {
                let mut request = request.map_err(kube::Error::BuildRequest)?;
                if let Ok(accept) = METADATA_ONLY.parse() {
                    request.headers_mut().insert("accept", accept);
                }
                self.client.request_text(request).await.map(drop)
            }
        })
        .await
    }

    /// The keys of a ConfigMap, `None` when there is no such ConfigMap.
    pub(crate) async fn config_map_keys(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeSet<String>>, Refused> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = self.insist(|| maps.get_opt(name)).await?;
        Ok(found.map(|map| map.data.into_iter().flatten().map(|(key, _)| key).collect()))
    }

    /// Tries until the call succeeds, is refused for good, or all tries are used up.
    pub(crate) async fn insist<T, F>(&self, call: impl FnMut() -> F) -> Result<T, Refused>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        insist(&self.counters, call).await
    }
}

async fn insist<T, F>(counters: &Counters, mut call: impl FnMut() -> F) -> Result<T, Refused>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut wait = FIRST_WAIT;
    let mut tries = 1;
    loop {
        let (why, asked_wait) = match tokio::time::timeout(DEADLINE, call()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(kube::Error::Api(status))) => match status.code {
                404 => return Err(Refused::Gone),
                409 => return Err(Refused::Conflict),
                429 | 500.. => {
                    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                    (status.message, Duration::from_secs(asked.into()))
                }
                _ => return Err(Refused::Invalid(status.message)),
            },
            Ok(Err(broken)) => (broken.to_string(), Duration::ZERO),
            Err(_) => (format!("no answer within {DEADLINE:?}"), Duration::ZERO),
        };
        if tries == TRIES {
            return Err(Refused::Unreachable(why));
        }
        tracing::debug!(tries, why, "trying a call again");
        counters.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(wait.max(asked_wait)).await;
        tries += 1;
        wait *= 2;
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    /// The answers of a server, one after the other; the last one for ever.
    async fn outcome(codes: &[u16]) -> (Result<(), Refused>, u64) {
        let counters = Counters::default();
        let mut calls = 0;
        let result = insist(&counters, || {
            let code = *codes.get(calls).or(codes.last()).unwrap();
            calls += 1;
            async move {
                let failure = Status {
                    code,
                    ..Status::failure("as expected", "Test")
                };
                if code == 200 {
                    Ok(())
                } else {
                    Err(kube::Error::Api(failure.boxed()))
                }
            }
        })
        .await;
        (result, counters.retries.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn overload_and_server_errors_are_tried_again() {
        assert!(matches!(outcome(&[429, 500, 503, 200]).await, (Ok(()), 3)));
        let (given_up, retries) = outcome(&[503]).await;
        assert!(matches!(given_up, Err(Refused::Unreachable(why)) if why == "as expected"));
        assert_eq!(retries, u64::from(TRIES) - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_told_at_once() {
        assert!(matches!(outcome(&[404]).await, (Err(Refused::Gone), 0)));
        assert!(matches!(outcome(&[409]).await, (Err(Refused::Conflict), 0)));
        assert!(matches!(outcome(&[422]).await, (Err(Refused::Invalid(_)), 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_given_up_and_tried_again() {
        let counters = Counters::default();
        let result: Result<(), _> = insist(&counters, std::future::pending).await;
        assert!(matches!(result, Err(Refused::Unreachable(why)) if why.contains("no answer within")));
    }
}
