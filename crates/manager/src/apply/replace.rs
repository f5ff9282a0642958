//! Objects that are written as a whole, as the published rights allow no patch of Secrets. Of what is there only the metadata is read, right before.

use std::time::Duration;

use kruise_api::resource::Preconditions;
use kruise_core::plan::{self, Body};
use kruise_runtime::error::{Class, Error};
use kruise_runtime::writer::{Target, Written};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;

use crate::platform::ControllerContext;

/// How long the metadata of an object may take to be read.
const DEADLINE: Duration = Duration::from_secs(10);

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
    let kind = GroupVersionKind::gvk(resource.group, resource.version, resource.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, resource.plural);
    let objects: Api<DynamicObject> = Api::namespaced_with(context.client().clone(), namespace, &kind);
    let late = |_| Error::new(Class::Transient, format!("{object} could not be read in time"));
    let found = tokio::time::timeout(DEADLINE, objects.get_metadata_opt(name))
        .await
        .map_err(late)??;
    let live = found.filter(|found| preconditions.uid.is_none() || found.metadata.uid == preconditions.uid);
    let Some(live) = live else {
        return Err(Error::new(Class::Gone, format!("{object} is gone")));
    };
    let metadata =
        serde_json::to_value(&live.metadata).map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
    let text = body.over(&metadata, preconditions).to_string();
    drop(metadata);
    context
        .writer()
        .replace(&Target::new(resource, namespace, name), text)
        .await
}
