//! Copies of Secrets. Their content is read from the API server right before it is written, and kept nowhere.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kruise_api::resource::Preconditions;
use kruise_api::secret;
use kruise_core::plan;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::writer::{Target, Written};
use serde_json::{Value, json};

use crate::platform::{ControllerContext, live};

/// The whole object once more, as kubectl left it on the source: it is no annotation of the copy.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A copy to make or to change.
pub(super) struct Copy<'a> {
    pub(super) object: &'a plan::Target,
    pub(super) from: Option<&'a plan::Target>,
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) preconditions: Option<&'a Preconditions>,
}

impl Copy<'_> {
    /// Writes it; nothing when the source is gone or has become another, which the next look at the cluster will show.
    pub(super) async fn write(&self, context: &ControllerContext) -> Result<Option<Written>, Error> {
        let source = match self.from {
            Some(from) => match read(context, from).await?.filter(is_for_registry) {
                Some(source) => Some(source),
                None => return Ok(None),
            },
            None => None,
        };
        let target = Target::new(self.object.resource, &self.object.namespace, &self.object.name);
        let Some(conditions) = self.preconditions else {
            let body = self.made(&source.unwrap_or_default());
            let written = context
                .writer()
                .create(target.resource, target.namespace, body.to_string())
                .await?;
            return Ok(Some(written));
        };
        let gone = || Error::new(Class::Gone, format!("Secret {} is gone", self.object.name));
        let mut copy = read(context, self.object).await?.ok_or_else(gone)?;
        if conditions.uid.as_ref() != copy.metadata.uid.as_ref() {
            return Err(gone());
        }
        if let Some(source) = source {
            copy.data = source.data;
        }
        // What was decided holds for the copy as it was looked at.
        copy.metadata.resource_version.clone_from(&conditions.resource_version);
        let annotations = copy.metadata.annotations.get_or_insert_default();
        annotations.extend(self.annotations.clone());
        let body = serde_json::to_string(&copy).map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        Ok(Some(context.writer().replace(&target, body).await?))
    }

    fn made(&self, source: &Secret) -> Value {
        let mut annotations = source.metadata.annotations.clone().unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        annotations.extend(self.annotations.clone());
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": self.object.name, "namespace": self.object.namespace,
                "labels": source.metadata.labels, "annotations": annotations,
            },
            "type": source.type_, "data": source.data,
        })
    }
}

fn is_for_registry(source: &Secret) -> bool {
    secret::is_for_registry(source.type_.as_deref().unwrap_or_default())
}

async fn read(context: &ControllerContext, object: &plan::Target) -> Result<Option<Secret>, Error> {
    live::read(context.client(), object.resource, &object.namespace, &object.name).await
}
