//! Objects that are read from the API server in the moment they are needed: no store shows them, or not newly enough. Never for long.

use std::{future::Future, time::Duration};

use kruise_api::resource::Resource;
use kruise_runtime::error::{Class, Error};
use kube::{
    Client,
    core::{ObjectMeta, PartialObjectMeta, Request, params::GetParams},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// How long an object may take to be read.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns what `T` tells of an object; nothing when it is not there.
pub async fn read<T: DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<T>, Error> {
    let request = Request::new(resource.path(namespace)).get(name, &GetParams::default());
    let request = request.map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
    in_time(resource, name, client.request(request)).await
}

/// Returns the metadata of an object; nothing when it is not there.
pub async fn read_metadata(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, Error> {
    let request = Request::new(resource.path(namespace)).get_metadata(name, &GetParams::default());
    let request = request.map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
    let found = in_time(resource, name, client.request::<PartialObjectMeta>(request)).await?;
    Ok(found.map(|found| found.metadata))
}

async fn in_time<T>(
    resource: &Resource,
    name: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, Error> {
    match timeout(DEADLINE, call).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => {
            let late = format!("{} {name} could not be read in time", resource.kind);
            Err(Error::new(Class::Transient, late))
        }
    }
}

#[cfg(test)]
mod tests {
    use kruise_api::{daemonset::v1beta1::DaemonSet, kind::Kind as _};

    use super::*;
    use crate::platform::fixture::unanswered;

    #[tokio::test(start_paused = true)]
    async fn given_a_server_that_never_answers_then_nobody_waits_for_long() {
        let (_silent, client) = unanswered().await;
        let read = read_metadata(&client, DaemonSet::RESOURCE, "shop", "web");
        let error = timeout(2 * DEADLINE, read)
            .await
            .expect("in time")
            .expect_err("no answer");
        assert_eq!(error.to_string(), "DaemonSet web could not be read in time");
        assert_eq!(error.class(), Class::Transient);
    }
}
