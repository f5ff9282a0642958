//! A registry that lives in the test and that every node finds at its own `localhost`, so that the test sees which node asks for what, and when.
//!
//! | repository | |
//! |---|---|
//! | `open/…` | has every tag |
//! | `private/…` | the same for those who know the password `right` of `user` |
//! | `held/…` | the same, but answers nobody before [`Registry::release`] |
//! | others | do not exist |

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kruise_testkit::{
    image::{Image, LayerBuilder, stand_ins},
    network::listen_on_node,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch, task::AbortHandle};

use super::world::{NODES, cluster_name};

/// The registry of one test.
pub(super) struct Registry {
    port: u16,
    seen: Arc<Mutex<Seen>>,
    released: watch::Sender<bool>,
    servers: Vec<AbortHandle>,
}

/// What was asked for.
#[derive(Debug, Default)]
struct Seen {
    /// Nodes that ever asked for something of a repository and tag.
    asked: BTreeMap<String, BTreeSet<&'static str>>,
    /// Requests of each node that wait for an answer.
    waiting: BTreeMap<&'static str, usize>,
    /// The most nodes that ever waited at the same time.
    most: usize,
}

struct Content {
    node: &'static str,
    image: Image,
    seen: Arc<Mutex<Seen>>,
    released: watch::Receiver<bool>,
}

impl Registry {
    /// With a small image that cannot be run.
    pub(super) fn start(port: u16) -> Self {
        let layer = LayerBuilder::default().file("/port", 0o644, port.to_string().as_bytes());
        let layer = layer.unwrap().build().unwrap();
        Self::with(port, &Image::new(vec![layer], &json!({"Cmd": ["/port"]})))
    }

    /// With an image that serves a page.
    pub(super) fn that_can_be_run(port: u16) -> Self {
        let all = stand_ins().unwrap().into_iter();
        let (.., image) = all.rev().find(|(name, ..)| *name == "library/nginx").unwrap();
        Self::with(port, &image)
    }

    fn with(port: u16, image: &Image) -> Self {
        let (released, on_release) = watch::channel(false);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let cluster = cluster_name();
        let serve = |(number, node): (u8, &'static str)| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let listener = listen_on_node(&cluster, number, address).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let content = Content {
                node,
                image: image.clone(),
                seen: Arc::clone(&seen),
                released: on_release.clone(),
            };
            let app = Router::new().fallback(answer).with_state(Arc::new(content));
            tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle()
        };
        Self {
            port,
            servers: (1..).zip(NODES).map(serve).collect(),
            seen,
            released,
        }
    }

    /// The full name of an image.
    pub(super) fn image(&self, name: &str) -> String {
        format!("localhost:{}/{name}", self.port)
    }

    pub(super) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Lets all requests pass from now on.
    pub(super) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Nodes that asked for an image, such as `open/a:1`.
    pub(super) fn asked(&self, image: &str) -> Vec<&'static str> {
        let seen = self.seen.lock();
        seen.asked.get(image).into_iter().flatten().copied().collect()
    }

    /// How many nodes wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        self.seen.lock().waiting.len()
    }

    /// The most nodes that ever waited at the same time.
    pub(super) fn most(&self) -> usize {
        self.seen.lock().most
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for server in &self.servers {
            server.abort();
        }
    }
}

/// A request that waits; also one that is given up ends.
struct Waits<'a>(&'a Content);

impl<'a> Waits<'a> {
    fn new(content: &'a Content) -> Self {
        let mut seen = content.seen.lock();
        *seen.waiting.entry(content.node).or_default() += 1;
        seen.most = seen.most.max(seen.waiting.len());
        Self(content)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut seen = self.0.seen.lock();
        if let Some(count) = seen.waiting.get_mut(self.0.node) {
            *count -= 1;
        }
        seen.waiting.retain(|_, count| *count > 0);
    }
}

async fn answer(State(content): State<Arc<Content>>, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches("/v2/");
    let Some((kind, name)) = path.split_once('/') else {
        return StatusCode::OK.into_response();
    };
    let (repository, reference, is_manifest) = match (name.split_once("/manifests/"), name.split_once("/blobs/")) {
        (Some((repository, reference)), _) => (repository, reference, true),
        (_, Some((repository, reference))) => (repository, reference, false),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if is_manifest {
        let mut seen = content.seen.lock();
        let asked = seen.asked.entry(format!("{kind}/{repository}:{reference}"));
        asked.or_default().insert(content.node);
    }
    match kind {
        "open" => {}
        "private" => {
            let right = format!("Basic {}", STANDARD.encode("user:right"));
            let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            if given != Some(right.as_str()) {
                return (
                    StatusCode::UNAUTHORIZED,
                    [(header::WWW_AUTHENTICATE, "Basic realm=\"tests\"")],
                )
                    .into_response();
            }
        }
        "held" => {
            let _waits = Waits::new(&content);
            let mut released = content.released.clone();
            if released.wait_for(|released| *released).await.is_err() {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    }
    let manifest = content.image.manifest();
    let (blob, media) = if is_manifest {
        (Some(manifest), Image::MANIFEST_TYPE)
    } else {
        let mut parts = content.image.parts();
        (parts.find(|part| part.digest == reference), "application/octet-stream")
    };
    let Some(blob) = blob else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE.as_str(), media),
        ("docker-content-digest", blob.digest.as_str()),
    ];
    (headers, blob.bytes.clone()).into_response()
}
