//! The record of refused deletions and evictions: `protection.log`, one JSON object per line, without a time stamp.
//!
//! The field `UserAgent` holds the *user name* of the request: the name is the original's, and readers rely on it.

use serde::Serialize;
use std::{
    fs::{File, OpenOptions, create_dir_all},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

const FILE: &str = "protection.log";

/// What refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Refusal {
    PodUnavailableBudget,
    DeletionProtection,
}

/// One refused request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry<'a> {
    pub event: Refusal,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    #[serde(rename = "UserAgent")]
    pub user: &'a str,
}

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("--protection-log-path: cannot write {}: {source}; choose a directory this process may write to", path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// The open file.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl AuditLog {
    /// Opens the file for appending; creates it and its directory when missing.
    pub fn open(directory: &Path) -> Result<Self, AuditError> {
        let path = directory.join(FILE);
        let opened = create_dir_all(directory).and_then(|()| OpenOptions::new().append(true).create(true).open(&path));
        match opened {
            Ok(file) => Ok(Self {
                path,
                file: Mutex::new(file),
            }),
            Err(source) => Err(AuditError { path, source }),
        }
    }

    /// Adds a line in one write, so that lines of several threads never mix.
    pub fn record(&self, entry: &Entry<'_>) -> Result<(), AuditError> {
        let wrong = |source| AuditError {
            path: self.path.clone(),
            source,
        };
        let mut line = serde_json::to_vec(entry).map_err(|error| wrong(error.into()))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_refusals_over_two_starts_then_the_file_has_a_line_for_each() {
        let place = tempfile::tempdir().expect("directory");
        let directory = place.path().join("made/on/the/way");
        for name in ["a", "b"] {
            let entry = Entry {
                event: Refusal::DeletionProtection,
                kind: "CloneSet",
                namespace: "ns",
                name,
                user: "someone",
            };
            AuditLog::open(&directory)
                .expect("opened")
                .record(&entry)
                .expect("written");
        }
        let text = std::fs::read_to_string(directory.join(FILE)).expect("readable");
        let line = |name| {
            format!(
                "{{\"Event\":\"DeletionProtection\",\"Kind\":\"CloneSet\",\"Namespace\":\"ns\",\"Name\":\"{name}\",\"UserAgent\":\"someone\"}}\n"
            )
        };
        assert_eq!(text, line("a") + &line("b"));
    }

    #[test]
    fn given_a_place_that_is_no_directory_then_the_message_names_the_flag() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let message = AuditLog::open(file.path()).expect_err("not a directory").to_string();
        assert!(message.starts_with("--protection-log-path: cannot write "), "{message}");
    }
}
