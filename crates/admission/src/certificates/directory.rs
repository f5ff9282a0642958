//! The certificate directory: for the readiness check, for people who want to look, and with store `fs` the only place.
//!
//! All files change at once: they are links into a folder that is exchanged as a whole, the way the kubelet writes Secrets. Only we may read them.
//! What is empty has no file: the key of the CA is on disk only where that is the only place.

use super::Artifacts;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::SystemTime,
};
use tokio::task::spawn_blocking;

/// The link to the folder that counts.
const CURRENT: &str = "..data";
const NEXT: &str = "..data_next";

/// Reads our own layout; what is missing is empty.
pub(super) async fn read(path: &Path) -> Artifacts {
    let path = path.to_owned();
    spawn_blocking(move || Artifacts::read(|name| fs::read(path.join(name)).ok()))
        .await
        .unwrap_or_default()
}

/// Reads the layout of external certificates; what is missing is empty.
pub(super) async fn read_external(path: &Path) -> Artifacts {
    let path = path.to_owned();
    spawn_blocking(move || Artifacts::read_external(|name| fs::read(path.join(name)).ok()))
        .await
        .unwrap_or_default()
}

/// Writes all files, unless they are there already.
pub(crate) async fn write(path: &Path, artifacts: &Artifacts) -> io::Result<()> {
    let (path, artifacts) = (path.to_owned(), artifacts.clone());
    spawn_blocking(move || write_now(&path, &artifacts))
        .await
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

fn write_now(path: &Path, artifacts: &Artifacts) -> io::Result<()> {
    let same = |(name, value): (&&str, &&[u8])| match fs::read(path.join(CURRENT).join(name)) {
        Ok(there) => there == *value,
        Err(error) => error.kind() == io::ErrorKind::NotFound && value.is_empty() && path.join(CURRENT).exists(),
    };
    if !artifacts.entries().iter().all(same) {
        let folder = new_folder(path)?;
        for (name, value) in artifacts.entries().into_iter().filter(|(_, value)| !value.is_empty()) {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path.join(&folder).join(name))?;
            file.write_all(value)?;
        }
        let old = fs::read_link(path.join(CURRENT)).ok();
        let _ = fs::remove_file(path.join(NEXT));
        symlink(&folder, path.join(NEXT))?;
        fs::rename(path.join(NEXT), path.join(CURRENT))?;
        if let Some(old) = old.filter(|old| *old != folder) {
            // Left-overs only cost space.
            let _ = fs::remove_dir_all(path.join(old));
        }
    }
    for (name, value) in artifacts.entries() {
        let (link, target) = (path.join(name), Path::new(CURRENT).join(name));
        if value.is_empty() {
            let _ = fs::remove_file(&link);
            continue;
        }
        if fs::read_link(&link).is_ok_and(|there| there == target) {
            continue;
        }
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&target, &link)?,
        }
    }
    Ok(())
}

/// A folder below `path` that was not there before; returns its name.
fn new_folder(path: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // An older program may have made it for everybody.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let name = PathBuf::from(format!("..{}", since.as_nanos()));
    DirBuilder::new().mode(0o700).create(path.join(&name))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifacts(text: &str) -> Artifacts {
        Artifacts {
            ca_key: format!("ca key {text}").into(),
            ca_bundle: format!("ca {text}").into(),
            key: format!("key {text}").into(),
            certificate: format!("certificate {text}").into(),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn given_writes_over_plain_files_then_all_six_change_at_once_and_only_we_can_read_them() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("made/on/the/way");
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join("tls.crt"), "old").unwrap();
        for text in ["one", "two"] {
            write(&path, &artifacts(text)).await.unwrap();
            assert_eq!(read(&path).await, artifacts(text));
            for (name, value) in artifacts(text).entries() {
                assert_eq!(fs::read(path.join(name)).unwrap(), value, "{name}");
                assert_eq!(mode(&path.join(name)), 0o600, "{name}");
            }
            assert_eq!(mode(&path), 0o700);
            let folders = fs::read_dir(&path)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir());
            assert_eq!(folders.count(), 1, "the old folder is gone");
        }
    }

    #[tokio::test]
    async fn given_no_key_of_the_ca_then_none_is_on_disk_also_after_one_was() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), &artifacts("one")).await.unwrap();
        for _ in 0..2 {
            write(place.path(), &artifacts("one").without_ca_key()).await.unwrap();
            assert_eq!(read(place.path()).await, artifacts("one").without_ca_key());
            assert!(!fs::exists(place.path().join("ca-key.pem")).unwrap());
            let current = fs::read_dir(place.path().join(CURRENT)).unwrap();
            let files: Vec<_> = current.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
            assert!(files.len() == 5 && !files.contains(&b"ca key one".to_vec()));
        }
    }

    #[tokio::test]
    async fn given_the_same_again_then_nothing_is_written() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), &artifacts("one")).await.unwrap();
        let before = fs::read_link(place.path().join(CURRENT)).unwrap();
        write(place.path(), &artifacts("one")).await.unwrap();
        assert_eq!(fs::read_link(place.path().join(CURRENT)).unwrap(), before);
    }

    #[tokio::test]
    async fn given_an_empty_or_missing_directory_then_everything_is_empty() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(read(place.path()).await, Artifacts::default());
        assert_eq!(read_external(&place.path().join("none")).await, Artifacts::default());
    }
}
