//! Where things lie: builds in the user's cache folder, running clusters in the user's state folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Downloads and builds that any number of clusters share; safe to delete when nothing runs.
pub fn cache() -> Result<PathBuf> {
    user_folder("XDG_CACHE_HOME", ".cache")
}

/// What running clusters keep: certificates, data, logs and the record of their processes.
pub fn state() -> Result<PathBuf> {
    user_folder("XDG_STATE_HOME", ".local/state")
}

fn user_folder(variable: &str, below_home: &str) -> Result<PathBuf> {
    let base = match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(set) => PathBuf::from(set),
        None => std::env::home_dir()
            .context("no home folder: set HOME")?
            .join(below_home),
    };
    let folder = base.join("kruise-rs");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Says so when less than `needed` bytes are free where `folder` is or will be.
pub fn lacks_room(folder: &Path, needed: u64) -> Option<String> {
    let existing = folder.ancestors().find(|each| each.exists())?;
    let disk = rustix::fs::statvfs(existing).ok()?;
    let free = disk.f_bavail * disk.f_frsize;
    (free < needed).then(|| {
        format!(
            "only {} MiB are free in {}, {} MiB are needed",
            free >> 20,
            existing.display(),
            needed >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_looked_up_at_the_nearest_folder_that_exists() {
        let folder = Path::new("/proc/self/no/such/folder");
        assert!(lacks_room(folder, u64::MAX).is_some_and(|lack| lack.contains("/proc/self")));
        assert_eq!(lacks_room(&std::env::temp_dir().join("not-there"), 1), None);
    }
}
