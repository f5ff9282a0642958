//! Credentials that are there for every image: Docker's files in the daemon's own file system, and plugins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kruise_cri::Credentials;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::keyring::{BadCredentials, Keyring};
use super::plugins::Plugins;

/// Files are read again after this.
const REMEMBERED: Duration = Duration::from_mins(5);

type Add = fn(&mut Keyring, &str, &[u8]) -> Result<(), BadCredentials>;

/// Where to look below a folder, in this order; the first file of each content that can be read counts.
const FILES: [(&str, Add); 3] = [
    ("config.json", Keyring::add_config_json),
    (".docker/config.json", Keyring::add_config_json),
    (".dockercfg", Keyring::add_config),
];

/// Credentials for every image.
#[derive(Debug)]
pub(super) struct DefaultKeys {
    folders: Vec<PathBuf>,
    plugins: Plugins,
    read: Mutex<Option<(Instant, Keyring)>>,
}

impl DefaultKeys {
    /// Looks in the working folder, the home of the user and the root.
    pub(super) fn new(plugins: Plugins) -> Self {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let folders = std::env::current_dir().into_iter().chain(home.map(PathBuf::from));
        Self::below(folders.chain([PathBuf::from("/")]).collect(), plugins)
    }

    fn below(mut folders: Vec<PathBuf>, plugins: Plugins) -> Self {
        folders.dedup();
        Self {
            folders,
            plugins,
            read: Mutex::new(None),
        }
    }

    /// The credentials that fit.
    pub(super) async fn find(&self, repository: &str) -> Vec<Credentials> {
        let mut found = self.files().find(repository);
        found.extend(self.plugins.find(repository).await);
        found
    }

    fn files(&self) -> Keyring {
        let mut read = self.read.lock();
        if let Some((until, ring)) = &*read
            && *until > Instant::now()
        {
            return ring.clone();
        }
        let ring = read_files(&self.folders);
        *read = Some((Instant::now() + REMEMBERED, ring.clone()));
        ring
    }
}

fn read_files(folders: &[PathBuf]) -> Keyring {
    let mut ring = Keyring::default();
    for (name, add) in FILES {
        let first = folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|file| file.is_file());
        if let Some(file) = first
            && let Err(error) = read_file(&mut ring, &file, add)
        {
            tracing::warn!("{error}");
        }
    }
    ring
}

fn read_file(ring: &mut Keyring, file: &Path, add: Add) -> Result<(), String> {
    let place = file.display().to_string();
    let content = std::fs::read(file).map_err(|error| format!("{place}: {error}"))?;
    add(ring, &place, &content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn given_files_then_the_first_of_each_kind_counts_and_broken_ones_give_nothing() {
        let (one, other) = (
            tempfile::tempdir().expect("folder"),
            tempfile::tempdir().expect("folder"),
        );
        let write = |folder: &Path, name: &str, content: &str| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            std::fs::write(file, content).expect("written");
        };
        write(one.path(), "config.json", "broken");
        write(
            other.path(),
            ".docker/config.json",
            r#"{"auths":{"r.io":{"username":"u","password":"p"}}}"#,
        );
        let folders = vec![one.path().to_owned(), other.path().to_owned()];
        let keys = DefaultKeys::below(folders, Plugins::default());
        assert_eq!(keys.find("r.io/a").await.len(), 1);
        assert!(keys.find("s.io/a").await.is_empty());
    }
}
