//! Where things lie: builds in the user's cache folder, running clusters in the user's state folder.

use std::path::PathBuf;

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
