//! The fake runtime's answers.

use std::sync::Arc;

use parking_lot::Mutex;
use tonic::{Code, Request, Response, Status, async_trait};

use super::Ends;
use super::world::{Called, FakeContainer, World};
use crate::runtime::Credentials;
use crate::wire;
use crate::wire::image_service_server::ImageService;
use crate::wire::runtime_service_server::RuntimeService;

#[derive(Clone)]
pub(super) struct Service(Arc<Mutex<World>>);

/// A call under way; notes when the caller goes away before the end.
struct UnderWay {
    world: Arc<Mutex<World>>,
    place: usize,
    ended: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        if let Some(called) = world.calls.get_mut(self.place) {
            called.given_up = !self.ended;
        }
    }
}

/// A pull under way.
struct Pulling(Arc<Mutex<World>>);

impl Drop for Pulling {
    fn drop(&mut self) {
        self.0.lock().pulling.0 -= 1;
    }
}

/// A command under way.
struct Executing {
    world: Arc<Mutex<World>>,
    about: String,
}

impl Executing {
    fn new(world: &Arc<Mutex<World>>, about: &str) -> Self {
        let mut now = world.lock();
        let count = now.executing.entry(about.to_owned()).or_default();
        *count += 1;
        let count = *count;
        now.most_at_once = now.most_at_once.max(count);
        Self {
            world: world.clone(),
            about: about.to_owned(),
        }
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        if let Some(count) = self.world.lock().executing.get_mut(&self.about) {
            *count -= 1;
        }
    }
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub(super) fn new(world: Arc<Mutex<World>>) -> Self {
        Self(world)
    }

    /// Writes the call down and lets it end as it was told.
    async fn begin(&self, called: Called) -> Result<UnderWay, Status> {
        let (place, ends) = {
            let mut world = self.0.lock();
            let ends = world
                .script
                .get_mut(called.call)
                .and_then(std::collections::VecDeque::pop_front);
            world.calls.push(called);
            (world.calls.len() - 1, ends)
        };
        let mut under_way = UnderWay {
            world: self.0.clone(),
            place,
            ended: false,
        };
        match ends {
            None => {}
            Some(Ends::With(code, message)) => {
                under_way.ended = true;
                return Err(Status::new(code, message));
            }
            Some(Ends::Never) => std::future::pending().await,
            Some(Ends::After(delay)) => tokio::time::sleep(delay).await,
        }
        Ok(under_way)
    }

    async fn plain<T>(&self, call: &'static str, about: &str, answer: impl FnOnce(&mut World) -> T) -> Answer<T> {
        let mut under_way = self.begin(called(call, about)).await?;
        under_way.ended = true;
        Ok(Response::new(answer(&mut self.0.lock())))
    }
}

fn called(call: &'static str, about: &str) -> Called {
    Called {
        call,
        about: about.to_owned(),
        credentials: None,
        annotations: std::collections::BTreeMap::new(),
        timeout: 0,
        given_up: false,
    }
}

fn listed(container: &FakeContainer) -> wire::Container {
    wire::Container {
        id: container.id.clone(),
        pod_sandbox_id: container.pod_uid.clone(),
        metadata: Some(wire::ContainerMetadata {
            name: container.name.clone(),
            attempt: 0,
        }),
        state: container.state().into(),
        created_at: container.created_at,
        labels: container.labels.clone(),
        annotations: container.annotations(),
    }
}

#[async_trait]
impl RuntimeService for Service {
    async fn version(&self, _: Request<wire::VersionRequest>) -> Answer<wire::VersionResponse> {
        self.plain("Version", "", |world| wire::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: world.name.clone(),
            runtime_version: "v0.fake".to_owned(),
            runtime_api_version: "v1".to_owned(),
        })
        .await
    }

    async fn list_containers(
        &self,
        request: Request<wire::ListContainersRequest>,
    ) -> Answer<wire::ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        self.plain("ListContainers", &filter.id.clone(), |world| {
            let fits = |container: &&FakeContainer| {
                let labels = &container.labels;
                (filter.id.is_empty() || filter.id == container.id)
                    && filter
                        .label_selector
                        .iter()
                        .all(|(key, value)| labels.get(key) == Some(value))
            };
            wire::ListContainersResponse {
                containers: world.containers.iter().filter(fits).map(listed).collect(),
            }
        })
        .await
    }

    async fn container_status(
        &self,
        request: Request<wire::ContainerStatusRequest>,
    ) -> Answer<wire::ContainerStatusResponse> {
        let id = request.into_inner().container_id;
        let answer = self
            .plain("ContainerStatus", &id, |world| {
                let found = world.containers.iter().find(|container| container.id == id);
                found.map(|container| wire::ContainerStatus {
                    id: id.clone(),
                    metadata: listed(container).metadata,
                    state: container.state().into(),
                    created_at: container.created_at,
                    started_at: container.created_at,
                    finished_at: 0,
                    labels: container.labels.clone(),
                    annotations: container.annotations(),
                })
            })
            .await?;
        let status = answer.into_inner();
        match status {
            Some(_) => Ok(Response::new(wire::ContainerStatusResponse { status })),
            None => Err(Status::not_found(format!(
                "an error occurred when try to find container \"{id}\": not found"
            ))),
        }
    }

    async fn stop_container(
        &self,
        request: Request<wire::StopContainerRequest>,
    ) -> Answer<wire::StopContainerResponse> {
        let request = request.into_inner();
        let note = Called {
            timeout: request.timeout,
            ..called("StopContainer", &request.container_id)
        };
        let mut under_way = self.begin(note).await?;
        under_way.ended = true;
        self.0.lock().end(&request.container_id);
        Ok(Response::new(wire::StopContainerResponse {}))
    }

    async fn exec_sync(&self, request: Request<wire::ExecSyncRequest>) -> Answer<wire::ExecSyncResponse> {
        let request = request.into_inner();
        let about = format!("{}: {}", request.container_id, request.cmd.join(" "));
        let note = Called {
            timeout: request.timeout,
            ..called("ExecSync", &about)
        };
        let _executing = Executing::new(&self.0, &about);
        let mut under_way = self.begin(note).await?;
        under_way.ended = true;
        let world = self.0.lock();
        let mut containers = world.containers.iter();
        if !containers.any(|container| container.id == request.container_id && container.running) {
            return Err(Status::unknown("failed to exec in container: it is not running"));
        }
        if request.cmd.first().is_some_and(|first| world.missing.contains(first)) {
            return Err(Status::unknown("failed to exec in container: no such file"));
        }
        let ended = request.cmd.first().and_then(|first| world.commands.get(first)).cloned();
        let ended = ended.unwrap_or_default();
        Ok(Response::new(wire::ExecSyncResponse {
            stdout: ended.stdout,
            stderr: ended.stderr,
            exit_code: ended.exit_code,
        }))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<wire::PodSandboxStatusRequest>,
    ) -> Answer<wire::PodSandboxStatusResponse> {
        let id = request.into_inner().pod_sandbox_id;
        self.plain("PodSandboxStatus", &id.clone(), |world| {
            wire::PodSandboxStatusResponse {
                status: Some(wire::PodSandboxStatus {
                    id,
                    network: Some(wire::PodSandboxNetworkStatus {
                        ip: world.pod_address.clone(),
                    }),
                }),
            }
        })
        .await
    }
}

#[async_trait]
impl ImageService for Service {
    async fn list_images(&self, _: Request<wire::ListImagesRequest>) -> Answer<wire::ListImagesResponse> {
        self.plain("ListImages", "", |world| wire::ListImagesResponse {
            images: world
                .images
                .iter()
                .map(|(reference, id)| image(reference, id))
                .collect(),
        })
        .await
    }

    async fn image_status(&self, request: Request<wire::ImageStatusRequest>) -> Answer<wire::ImageStatusResponse> {
        let reference = request.into_inner().image.unwrap_or_default().image;
        self.plain("ImageStatus", &reference, |world| {
            let name = full(&reference);
            wire::ImageStatusResponse {
                image: world.images.get(&name).map(|id| image(&name, id)),
            }
        })
        .await
    }

    async fn pull_image(&self, request: Request<wire::PullImageRequest>) -> Answer<wire::PullImageResponse> {
        let request = request.into_inner();
        let reference = request.image.unwrap_or_default().image;
        let credentials = request.auth.map(|auth| Credentials {
            username: auth.username,
            password: auth.password,
        });
        let note = Called {
            credentials: credentials.clone(),
            annotations: request.sandbox_config.unwrap_or_default().annotations,
            ..called("PullImage", &reference)
        };
        let pulling = {
            let mut world = self.0.lock();
            world.pulling.0 += 1;
            world.pulling.1 = world.pulling.1.max(world.pulling.0);
            Pulling(self.0.clone())
        };
        let mut under_way = self.begin(note).await?;
        let entry = self.0.lock().registry.get(&reference).cloned();
        let result = match entry {
            None => Err(Status::new(
                Code::NotFound,
                format!("failed to pull and unpack image \"{reference}\": not found"),
            )),
            Some(entry) if entry.only.is_some() && entry.only != credentials => Err(Status::new(
                Code::Unknown,
                format!("failed to pull image \"{reference}\": 401 Unauthorized"),
            )),
            Some(entry) => {
                if entry.stuck {
                    std::future::pending::<()>().await;
                }
                let id = format!("sha256:{:064x}", reference.len());
                self.0.lock().images.insert(full(&reference), id.clone());
                Ok(Response::new(wire::PullImageResponse { image_ref: id }))
            }
        };
        under_way.ended = true;
        drop(pulling);
        result
    }

    async fn image_fs_info(&self, _: Request<wire::ImageFsInfoRequest>) -> Answer<wire::ImageFsInfoResponse> {
        self.plain("ImageFsInfo", "", |_| wire::ImageFsInfoResponse {}).await
    }
}

fn image(reference: &str, id: &str) -> wire::Image {
    let references = vec![reference.to_owned()];
    let (repo_tags, repo_digests) = if reference.contains('@') {
        (Vec::new(), references)
    } else {
        (references, Vec::new())
    };
    wire::Image {
        id: id.to_owned(),
        repo_tags,
        repo_digests,
    }
}

/// As a runtime notes a reference: with its registry.
fn full(reference: &str) -> String {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) => reference.to_owned(),
        Some(_) => format!("docker.io/{reference}"),
        None => format!("docker.io/library/{reference}"),
    }
}
