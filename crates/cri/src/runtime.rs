//! One container runtime of the node.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Response, Status};

use crate::error::Error;
use crate::wire;
use crate::wire::image_service_client::ImageServiceClient;
use crate::wire::runtime_service_client::RuntimeServiceClient;

/// Deadline of a plain call.
const PLAIN: Duration = Duration::from_secs(5);
/// How much longer than the work itself a call may take.
const BEYOND: Duration = Duration::from_secs(5);
/// Deadline of the first call.
const FIRST: Duration = Duration::from_secs(10);
/// Longest message; a node with thousands of images answers some megabytes.
const LONGEST: usize = 16 << 20;
/// What the kubelet says of itself.
const OUR_VERSION: &str = "0.1.0";

/// A connected runtime. Clones are the same connection.
#[derive(Clone)]
pub struct Runtime {
    name: Arc<str>,
    version: Arc<str>,
    socket: Arc<Path>,
    channel: Channel,
}

/// Name and password for a registry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credentials {
    /// User.
    pub username: String,
    pub password: String,
}

/// What to pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// The reference.
    pub image: String,
    /// Who pulls; nobody in particular when not given.
    pub credentials: Option<Credentials>,
    /// Labels of the sandbox for which it is pulled.
    pub labels: BTreeMap<String, String>,
    /// Annotations of that sandbox.
    pub annotations: BTreeMap<String, String>,
}

/// How a command in a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// 0 for success.
    pub exit_code: i32,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: Vec<u8>,
}

impl Runtime {
    /// Connects and makes sure that the runtime speaks version 1: it has to tell where its images are, list them, and give its name.
    pub async fn connect(socket: &Path) -> Result<Self, Error> {
        let mut runtime = Self {
            name: "".into(),
            version: "".into(),
            socket: socket.into(),
            channel: dial(socket.to_owned()),
        };
        let request = wire::ImageFsInfoRequest {};
        within("ImageFsInfo", FIRST, runtime.images().image_fs_info(request)).await?;
        runtime.list_images().await?;
        let request = wire::VersionRequest {
            version: OUR_VERSION.to_owned(),
        };
        let answer = within("Version", PLAIN, runtime.containers().version(request)).await?;
        if answer.runtime_name.is_empty() {
            return Err(Error::Empty {
                call: "Version",
                what: "the runtime's name",
            });
        }
        runtime.name = answer.runtime_name.into();
        runtime.version = answer.runtime_version.into();
        Ok(runtime)
    }

    /// Returns its name, which is in front of container IDs: `containerd`, `cri-o`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its version, in its own words.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns all images of the node.
    pub async fn list_images(&self) -> Result<Vec<wire::Image>, Error> {
        let request = wire::ListImagesRequest {};
        let answer = within("ListImages", PLAIN, self.images().list_images(request)).await?;
        Ok(answer.images)
    }

    /// Returns an image of the node, by any form of its name.
    pub async fn image(&self, reference: &str) -> Result<Option<wire::Image>, Error> {
        let request = wire::ImageStatusRequest {
            image: Some(wire::ImageSpec {
                image: reference.to_owned(),
            }),
        };
        let answer = within("ImageStatus", PLAIN, self.images().image_status(request)).await?;
        Ok(answer.image)
    }

    /// Pulls an image. When the caller gives up, so does the runtime.
    pub async fn pull_image(&self, request: &PullRequest, deadline: Duration) -> Result<String, Error> {
        let auth = request.credentials.clone().map(|credentials| wire::AuthConfig {
            username: credentials.username,
            password: credentials.password,
        });
        let request = wire::PullImageRequest {
            image: Some(wire::ImageSpec {
                image: request.image.clone(),
            }),
            auth,
            sandbox_config: Some(wire::PodSandboxConfig {
                labels: request.labels.clone(),
                annotations: request.annotations.clone(),
            }),
        };
        let answer = within("PullImage", deadline, self.images().pull_image(request)).await?;
        Ok(answer.image_ref)
    }

    /// Returns the containers of a Pod, the newest first, each in detail. One that goes meanwhile is left out.
    pub async fn containers_of(&self, pod_uid_label: &str, pod_uid: &str) -> Result<Vec<wire::ContainerStatus>, Error> {
        let filter = wire::ContainerFilter {
            id: String::new(),
            label_selector: BTreeMap::from([(pod_uid_label.to_owned(), pod_uid.to_owned())]),
        };
        let mut found = Vec::new();
        for container in self.list_containers(filter).await? {
            match self.container(&container.id).await {
                Ok(status) => found.push(status),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|one, other| (other.created_at, &one.id).cmp(&(one.created_at, &other.id)));
        Ok(found)
    }

    /// Returns one container as the list shows it; nothing when there is none.
    pub async fn find_container(&self, id: &str) -> Result<Option<wire::Container>, Error> {
        let filter = wire::ContainerFilter {
            id: id.to_owned(),
            label_selector: BTreeMap::new(),
        };
        Ok(self.list_containers(filter).await?.into_iter().next())
    }

    async fn list_containers(&self, filter: wire::ContainerFilter) -> Result<Vec<wire::Container>, Error> {
        let request = wire::ListContainersRequest { filter: Some(filter) };
        let answer = within("ListContainers", PLAIN, self.containers().list_containers(request)).await?;
        Ok(answer.containers)
    }

    /// Returns one container in detail.
    pub async fn container(&self, id: &str) -> Result<wire::ContainerStatus, Error> {
        let request = wire::ContainerStatusRequest {
            container_id: id.to_owned(),
        };
        let answer = within("ContainerStatus", PLAIN, self.containers().container_status(request)).await?;
        answer.status.ok_or(Error::Empty {
            call: "ContainerStatus",
            what: "a status",
        })
    }

    /// Returns the address of the Pod that a container belongs to; empty when it has none of its own.
    pub async fn pod_address(&self, container_id: &str) -> Result<String, Error> {
        let Some(container) = self.find_container(container_id).await? else {
            return Ok(String::new());
        };
        let request = wire::PodSandboxStatusRequest {
            pod_sandbox_id: container.pod_sandbox_id,
        };
        let answer = within("PodSandboxStatus", PLAIN, self.containers().pod_sandbox_status(request)).await?;
        let network = answer.status.and_then(|status| status.network);
        Ok(network.map(|network| network.ip).unwrap_or_default())
    }

    /// Stops a container, which has `grace` to end by itself.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let request = wire::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
        };
        let deadline = grace.saturating_add(BEYOND);
        within("StopContainer", deadline, self.containers().stop_container(request)).await?;
        Ok(())
    }

    /// Runs a command in a container; as long as it takes when there is no limit. What it prints may be `most` bytes long.
    ///
    /// # Errors
    /// [`Error::TooLong`] when it prints more: nothing of it is read then, so that no container can fill our memory.
    pub async fn exec(
        &self,
        id: &str,
        command: &[String],
        limit: Option<Duration>,
        most: usize,
    ) -> Result<Executed, Error> {
        let request = wire::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.to_owned(),
            timeout: limit.map_or(0, |limit| i64::try_from(limit.as_secs().max(1)).unwrap_or(i64::MAX)),
        };
        let mut containers = self.containers().max_decoding_message_size(most.min(LONGEST));
        let call = containers.exec_sync(request);
        let answer = match limit {
            Some(limit) => within("ExecSync", limit.saturating_add(BEYOND), call).await,
            None => call.await.map(Response::into_inner).map_err(Error::from),
        };
        let answer = answer.map_err(|error| {
            if error.is_refused_as_too_long() {
                Error::TooLong { call: "ExecSync", most }
            } else {
                error
            }
        })?;
        Ok(Executed {
            exit_code: answer.exit_code,
            stdout: answer.stdout,
            stderr: answer.stderr,
        })
    }

    fn containers(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone()).max_decoding_message_size(LONGEST)
    }

    fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone()).max_decoding_message_size(LONGEST)
    }
}

/// A channel that dials when it is used and not connected, so also after the runtime was restarted.
fn dial(socket: PathBuf) -> Channel {
    // The address is never looked up: the connector knows the socket.
    Endpoint::from_static("http://localhost")
        .connect_timeout(PLAIN)
        .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }))
}

async fn within<T>(
    call: &'static str,
    deadline: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Error> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Error::Silent { call, within: deadline }),
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} at {})", self.name, self.socket.display())
    }
}

/// Never the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, …)", self.username)
    }
}
