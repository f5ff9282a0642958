//! Where certificates are kept.

use super::{Artifacts, directory};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use k8s_openapi::api::core::v1::Secret;
use kruise_api::{kind::Kind as _, resource::Preconditions};
use kruise_runtime::{
    error::{Class, Error},
    writer::{Patch, Target, Writer},
};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use std::{io, path::PathBuf, time::Duration};
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(10);

/// Why certificates cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("somebody else was faster")]
    Conflict,
    #[error("Secret {name}: {reason}")]
    Secret { name: String, reason: String },
    #[error("Secret {0}: no answer in time")]
    Late(String),
    #[error("directory {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
}

/// Where certificates are kept.
#[derive(Debug)]
pub(crate) enum Store {
    Secret {
        api: Box<Api<Secret>>,
        writer: Writer,
        namespace: String,
        name: String,
    },
    Directory(PathBuf),
}

/// What is kept, and by what to tell that it is still the same.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) artifacts: Artifacts,
    /// Whether all six entries are there.
    pub(crate) complete: bool,
    version: Version,
}

#[derive(Debug)]
enum Version {
    /// There is nothing yet.
    None,
    Resource(String),
    File,
}

impl Store {
    pub(crate) fn secret(client: Client, writer: Writer, namespace: &str, name: &str) -> Self {
        Self::Secret {
            api: Box::new(Api::namespaced(client, namespace)),
            writer,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Reads what is kept in our own layout.
    pub(crate) async fn read(&self) -> Result<Kept, StoreError> {
        match self {
            Self::Secret { api, name, .. } => {
                let secret = Self::get(api, name).await?;
                let version = match &secret {
                    None => Version::None,
                    Some(secret) => Version::Resource(secret.metadata.resource_version.clone().unwrap_or_default()),
                };
                let data = secret.and_then(|secret| secret.data).unwrap_or_default();
                let artifacts = Artifacts::read(|key| data.get(key).map(|value| value.0.clone()));
                let complete = artifacts
                    .entries()
                    .iter()
                    .all(|(key, value)| data.get(*key).is_some_and(|there| there.0 == *value));
                Ok(Kept {
                    artifacts,
                    complete,
                    version,
                })
            }
            Self::Directory(path) => {
                let artifacts = directory::read(path).await;
                Ok(Kept {
                    artifacts,
                    complete: true,
                    version: Version::File,
                })
            }
        }
    }

    /// Reads what somebody else keeps in the layout of external certificates.
    pub(crate) async fn read_external(&self) -> Result<Artifacts, StoreError> {
        match self {
            Self::Secret { api, name, .. } => {
                let secret = Self::get(api, name).await?;
                let data = secret.and_then(|secret| secret.data).unwrap_or_default();
                Ok(Artifacts::read_external(|key| {
                    data.get(key).map(|value| value.0.clone())
                }))
            }
            Self::Directory(path) => Ok(directory::read_external(path).await),
        }
    }

    /// Keeps something else, if what was read is still there. Of a Secret only the entries are touched: its labels and owners are somebody else's.
    pub(crate) async fn write(&self, was: &Kept, artifacts: &Artifacts) -> Result<(), StoreError> {
        match self {
            Self::Directory(path) => directory::write(path, artifacts)
                .await
                .map_err(|source| StoreError::Directory {
                    path: path.clone(),
                    source,
                }),
            Self::Secret {
                writer,
                namespace,
                name,
                ..
            } => {
                let written = match &was.version {
                    Version::Resource(version) => {
                        let target = Target::new(Secret::RESOURCE, namespace, name);
                        let unchanged = Preconditions::NONE.at(&**version);
                        let patch = Patch::Merge(json!({ "data": data_of(artifacts) }));
                        writer.patch(&target, patch, &unchanged).await
                    }
                    Version::None | Version::File => {
                        let secret = new_secret(name, artifacts).to_string();
                        writer.create(Secret::RESOURCE, namespace, secret).await
                    }
                };
                match written {
                    Ok(_) => Ok(()),
                    Err(error) if error.class() == Class::Conflict => Err(StoreError::Conflict),
                    Err(error) => Err(wrong(name, &error)),
                }
            }
        }
    }

    async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, StoreError> {
        match timeout(DEADLINE, api.get_opt(name)).await {
            Err(_) => Err(StoreError::Late(name.to_owned())),
            Ok(Err(error)) => Err(wrong(name, &Error::from(error))),
            Ok(Ok(secret)) => Ok(secret),
        }
    }
}

fn wrong(name: &str, error: &Error) -> StoreError {
    StoreError::Secret {
        name: name.to_owned(),
        reason: error.to_string(),
    }
}

fn data_of(artifacts: &Artifacts) -> Map<String, Value> {
    let entries = artifacts.entries().into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), BASE64.encode(value).into()))
        .collect()
}

fn new_secret(name: &str, artifacts: &Artifacts) -> Value {
    json!({
        "apiVersion": Secret::API_VERSION, "kind": Secret::KIND,
        "metadata": { "name": name },
        "type": "Opaque",
        "data": data_of(artifacts),
    })
}
