//! Objects that are written as a whole, as the published rights allow no patch of Secrets. Of what is there only the metadata is read, right before.

use kruise_api::resource::Preconditions;
use kruise_core::plan::{self, Body};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::writer::{Target, Written};

use crate::platform::{ControllerContext, live};

/// Writes an object in place of the one that is there, if that is as it was looked at.
pub(super) async fn replace(
    context: &ControllerContext,
    object: &plan::Target,
    body: &Body,
    preconditions: &Preconditions,
) -> Result<Written, Error> {
    let plan::Target {
        resource,
        namespace,
        name,
    } = object;
    let found = live::read_metadata(context.client(), resource, namespace, name).await?;
    let Some(live) = found.filter(|found| preconditions.uid.is_none() || found.uid == preconditions.uid) else {
        return Err(Error::new(Class::Gone, format!("{object} is gone")));
    };
    let metadata = serde_json::to_value(&live).map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
    let text = body.over(&metadata, preconditions).to_string();
    drop(metadata);
    context
        .writer()
        .replace(&Target::new(resource, namespace, name), text)
        .await
}
