//! A container runtime for tests that does as it is told.
//!
//! - It has images, a registry to pull from, and containers; [`FakeRuntime::world`] shows and changes them.
//! - Stopped containers come back by themselves, as with a kubelet, when [`World::kubelet`] is on.
//! - [`FakeRuntime::next`] tells how the next calls of a kind end: with an error, or not at all.
//! - Every call is written down, and so is every call that the caller gave up.
//! - [`FakeRuntime::kill`] ends it as a crash does, with all connections; [`FakeRuntime::start_again`] brings it back on the same socket.

mod service;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Code;

pub use world::{Called, FakeContainer, Pullable, World};

use crate::wire::image_service_server::ImageServiceServer;
use crate::wire::runtime_service_server::RuntimeServiceServer;
use service::Service;

/// How a call ends, other than well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With an error.
    With(Code, &'static str),
    /// Not at all, until the caller gives up.
    Never,
    /// Well, but late.
    After(Duration),
}

/// A runtime on a socket of its own, in a thread of its own.
#[derive(Debug)]
pub struct FakeRuntime {
    socket: PathBuf,
    world: Arc<Mutex<World>>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl FakeRuntime {
    /// Starts a runtime that calls itself containerd.
    pub fn start(socket: &Path) -> Self {
        let mut runtime = Self {
            socket: socket.to_owned(),
            world: Arc::default(),
            running: None,
        };
        runtime.start_again();
        runtime
    }

    /// Returns where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns what it knows. Do not hold this while waiting for something.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// How the next calls of this kind end, one after the other; after these all is well again.
    pub fn next(&self, call: &str, ends: impl IntoIterator<Item = Ends>) {
        let mut world = self.world();
        world.script.entry(call.to_owned()).or_default().extend(ends);
    }

    /// Returns the calls of a kind so far.
    pub fn calls(&self, call: &str) -> Vec<Called> {
        let world = self.world();
        let of_kind = world.calls.iter().filter(|called| called.call == call);
        of_kind.cloned().collect()
    }

    /// Ends it at once, with every connection.
    pub fn kill(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            thread.join().expect("the fake runtime's thread");
        }
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Brings it back with all it knew.
    pub fn start_again(&mut self) {
        self.kill();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, listening) = std::sync::mpsc::channel();
        let (socket, world) = (self.socket.clone(), self.world.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for the fake");
            runtime.block_on(async move {
                let listener = UnixListener::bind(&socket).expect("the fake's socket");
                ready.send(()).expect("somebody waits");
                let service = Service::new(world);
                let server = tonic::transport::Server::builder()
                    .add_service(RuntimeServiceServer::new(service.clone()))
                    .add_service(ImageServiceServer::new(service))
                    .serve_with_incoming(UnixListenerStream::new(listener));
                tokio::select! {
                    ended = server => ended.expect("the fake serves"),
                    _ = stopped => {}
                }
            });
            // Dropping the runtime cuts every connection.
        });
        listening.recv().expect("the fake listens");
        self.running = Some((stop, thread));
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.kill();
    }
}
