//! Which runtimes the node has.
//!
//! - With `--socket-file` there is one candidate: that file below the folder where the host's sockets are mounted. A whole path is
//!   taken as it is when nothing of that name lies below the folder.
//! - Otherwise every known socket that exists is tried, containerd's first.
//! - A runtime that cannot be reached, or does not speak CRI v1, is passed over and named in the log. Without any there is nothing
//!   to do on this node, which ends the process.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::runtime::Runtime;

/// Known sockets, in the order in which they are tried.
const KNOWN: [&str; 6] = [
    "containerd.sock",
    "containerd/containerd.sock",
    "crio.sock",
    "crio/crio.sock",
    "cri-dockerd.sock",
    "cri-dockerd/cri-dockerd.sock",
];

/// The runtimes of a node, at least one. Clones are the same connections.
#[derive(Clone, Debug)]
pub struct Runtimes(Vec<Runtime>);

/// Why there is no runtime.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// No socket.
    #[error("not found container runtime sock: looked for {}; check daemon.socketLocation and daemon.socketFile", list(.0))]
    NoSocket(Vec<PathBuf>),
    /// Sockets, but nobody who answers as he should.
    #[error("no container runtime that speaks CRI v1: {}", refusals(.0))]
    NoRuntime(Vec<(PathBuf, Error)>),
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

fn refusals(tried: &[(PathBuf, Error)]) -> String {
    let tried: Vec<_> = tried
        .iter()
        .map(|(path, error)| format!("{}: {error}", path.display()))
        .collect();
    tried.join("; ")
}

/// Returns the sockets that may be there.
pub fn candidates(folder: &Path, socket_file: &str) -> Vec<PathBuf> {
    if socket_file.is_empty() {
        return KNOWN.iter().map(|name| folder.join(name)).collect();
    }
    let below = folder.join(socket_file.trim_start_matches('/'));
    if socket_file.starts_with('/') && !below.exists() {
        return vec![PathBuf::from(socket_file)];
    }
    vec![below]
}

/// Connects to every runtime among the candidates.
pub async fn connect(candidates: &[PathBuf]) -> Result<Runtimes, DiscoverError> {
    let (mut connected, mut refused) = (Vec::<Runtime>::new(), Vec::new());
    for socket in candidates.iter().filter(|path| path.exists()) {
        match Runtime::connect(socket).await {
            Ok(runtime) if connected.iter().any(|other| other.name() == runtime.name()) => {
                tracing::debug!(socket = %socket.display(), name = runtime.name(), "the same runtime once more");
            }
            Ok(runtime) => {
                tracing::info!(
                    socket = %socket.display(), name = runtime.name(), version = runtime.version(),
                    "the container runtime is reached"
                );
                connected.push(runtime);
            }
            Err(error) => {
                tracing::warn!(socket = %socket.display(), "not used as container runtime: {error}");
                refused.push((socket.clone(), error));
            }
        }
    }
    if !connected.is_empty() {
        Ok(Runtimes(connected))
    } else if refused.is_empty() {
        Err(DiscoverError::NoSocket(candidates.to_vec()))
    } else {
        Err(DiscoverError::NoRuntime(refused))
    }
}

impl Runtimes {
    /// Returns the one that pulls images.
    pub fn first(&self) -> &Runtime {
        // `connect` makes none without a runtime.
        &self.0[0]
    }

    /// Returns the one of this name, as container IDs have it.
    pub fn named(&self, name: &str) -> Option<&Runtime> {
        self.0.iter().find(|runtime| runtime.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_no_name_then_the_known_sockets_are_candidates_containerd_first() {
        let known = candidates(Path::new("/hostvarrun"), "");
        assert_eq!(known[0], Path::new("/hostvarrun/containerd.sock"));
        assert_eq!(known[1], Path::new("/hostvarrun/containerd/containerd.sock"));
        assert_eq!(known.len(), 6);
    }

    #[test]
    fn given_a_name_then_it_is_the_only_candidate() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(
            candidates(folder.path(), "k3s/containerd/containerd.sock"),
            [folder.path().join("k3s/containerd/containerd.sock")]
        );
        // As the original joins paths.
        std::fs::write(folder.path().join("x.sock"), "").expect("written");
        assert_eq!(candidates(folder.path(), "/x.sock"), [folder.path().join("x.sock")]);
        assert_eq!(candidates(folder.path(), "/run/y.sock"), [PathBuf::from("/run/y.sock")]);
    }

    #[tokio::test]
    async fn given_nothing_or_no_runtime_then_the_message_says_so() {
        let folder = tempfile::tempdir().expect("folder");
        let error = connect(&candidates(folder.path(), "")).await.expect_err("no socket");
        assert!(
            error.to_string().starts_with("not found container runtime sock"),
            "{error}"
        );
        std::fs::write(folder.path().join("containerd.sock"), "no socket").expect("written");
        let error = connect(&candidates(folder.path(), "")).await.expect_err("no runtime");
        assert!(
            matches!(&error, DiscoverError::NoRuntime(refused) if refused.len() == 1),
            "{error}"
        );
    }
}
