//! The record of refused deletions and evictions: `protection.log`, one JSON object per line, without a time stamp.
//!
//! The field `UserAgent` holds the *user name* of the request: the name is the original's, and readers rely on it. Refused deletions are counted, too; those of
//! dry runs like any other.

use crate::Request;
use kruise_api::pod::Pod;
use prometheus::IntCounterVec;
use serde::Serialize;
use std::{
    fs::{File, OpenOptions, create_dir_all},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::task::spawn_blocking;
use tracing::warn;

const FILE: &str = "protection.log";

/// One refused request.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    event: &'static str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(rename = "UserAgent")]
    user: &'a str,
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
    fn append(&self, line: &[u8]) -> Result<(), AuditError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line).map_err(|source| AuditError {
            path: self.path.clone(),
            source,
        })
    }
}

/// Writes down what was refused.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) log: Option<Arc<AuditLog>>,
    /// Refused deletions of workloads.
    pub(crate) workloads: IntCounterVec,
    /// Refused deletions of namespaces.
    pub(crate) namespaces: IntCounterVec,
    /// Refused deletions of CRDs.
    pub(crate) definitions: IntCounterVec,
    /// What budgets refused.
    pub(crate) budgets: IntCounterVec,
}

impl Audit {
    /// The deletion of a workload was refused. A log that cannot be written changes no verdict.
    pub(crate) async fn deletion_refused(&self, kind: &str, request: &Request<'_>) {
        let (namespace, name, user) = (&*request.namespace, &*request.name, &*request.user_info.username);
        let workload = format!("{kind}_{namespace}_{name}");
        self.workloads.with_label_values(&[workload.as_str(), user]).inc();
        self.write("DeletionProtection", kind, namespace, name, user).await;
    }

    /// The deletion of a namespace was refused.
    pub(crate) async fn namespace_deletion_refused(&self, request: &Request<'_>) {
        let (name, user) = (&*request.name, &*request.user_info.username);
        self.namespaces.with_label_values(&[name, user]).inc();
        self.write("DeletionProtection", "Namespace", "", name, user).await;
    }

    /// The deletion of a CRD was refused.
    pub(crate) async fn crd_deletion_refused(&self, request: &Request<'_>) {
        let (name, user) = (&*request.name, &*request.user_info.username);
        self.definitions.with_label_values(&[name, user]).inc();
        self.write("DeletionProtection", "CustomResourceDefinition", "", name, user)
            .await;
    }

    /// A budget refused to have a Pod disturbed. What counts is its workload.
    pub(crate) async fn budget_refused(&self, pod: &Pod, user: &str, is_written: bool) {
        let owner = pod.metadata.controller();
        let kind = owner.map_or("unknown", |owner| &*owner.kind);
        let name = owner.map_or(&*pod.metadata.name, |owner| &*owner.name);
        let namespace = match &*pod.metadata.namespace {
            "" => "default",
            namespace => namespace,
        };
        let workload = format!("{kind}_{namespace}_{name}");
        self.budgets.with_label_values(&[workload.as_str(), user]).inc();
        if is_written {
            self.write("PodUnavailableBudget", kind, namespace, name, user).await;
        }
    }

    async fn write(&self, event: &'static str, kind: &str, namespace: &str, name: &str, user: &str) {
        let Some(log) = self.log.clone() else { return };
        let entry = Entry {
            event,
            kind,
            namespace,
            name,
            user,
        };
        let Ok(mut line) = serde_json::to_vec(&entry) else {
            return;
        };
        line.push(b'\n');
        // A disk may take its time; only this request waits for it.
        match spawn_blocking(move || log.append(&line)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("a refusal is not written down: {error}"),
            Err(panic) => warn!("a refusal is not written down: {panic}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::Opts;
    use serde_json::json;

    #[tokio::test]
    async fn given_refusals_over_two_starts_then_the_file_has_a_line_for_each() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("made/on/the/way");
        let workloads = IntCounterVec::new(Opts::new("a", "b"), &["kind_namespace_name", "username"]).unwrap();
        let other = IntCounterVec::new(Opts::new("c", "d"), &["name", "username"]).unwrap();
        for name in ["a", "b"] {
            let audit = Audit {
                log: Some(Arc::new(AuditLog::open(&directory).unwrap())),
                workloads: workloads.clone(),
                namespaces: other.clone(),
                definitions: other.clone(),
                budgets: other.clone(),
            };
            let text = json!({"namespace": "ns", "name": name, "userInfo": {"username": "someone"}}).to_string();
            audit
                .deletion_refused("CloneSet", &serde_json::from_str(&text).unwrap())
                .await;
        }
        let text = std::fs::read_to_string(directory.join(FILE)).unwrap();
        let line = |name| {
            format!(
                "{{\"Event\":\"DeletionProtection\",\"Kind\":\"CloneSet\",\"Namespace\":\"ns\",\"Name\":\"{name}\",\"UserAgent\":\"someone\"}}\n"
            )
        };
        assert_eq!(text, line("a") + &line("b"));
        assert_eq!(workloads.with_label_values(&["CloneSet_ns_a", "someone"]).get(), 1);
    }

    #[test]
    fn given_a_path_that_is_no_directory_then_the_message_names_the_flag() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = AuditLog::open(file.path()).unwrap_err().to_string();
        assert!(message.starts_with("--protection-log-path: cannot write "), "{message}");
    }
}
