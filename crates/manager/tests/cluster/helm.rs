//! Helm as a user runs it, and the chart of this repository.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use kruise_testkit::{kubernetes, progress::Progress};
use serde_json::Value;
use tempfile::TempDir;

/// The folder of the chart.
pub(super) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/kruise")
}

/// Helm and the release `kruise`.
pub(super) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    folder: TempDir,
}

impl Helm {
    pub(super) fn of(kubeconfig: &Path) -> Self {
        Self {
            program: kubernetes::helm(&Progress::quiet()).unwrap(),
            kubeconfig: kubeconfig.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Has to succeed.
    pub(super) fn run(&self, verb: &str, chart: &Path, more: &[&str]) {
        let chart = chart.display().to_string();
        let args: Vec<&str> = [verb, "kruise", &chart]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        self.says(&args);
    }

    /// The objects of the release as it is now.
    pub(super) fn release(&self) -> Vec<Value> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&self.says(&["get", "manifest", "kruise"])).unwrap();
        documents.into_iter().filter(|document| !document.is_null()).collect()
    }

    pub(super) fn says(&self, args: &[&str]) -> String {
        self.tries(args)
            .unwrap_or_else(|error| panic!("helm {args:?}: {error}"))
    }

    /// What it says, or complains about.
    pub(super) fn tries(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .args(["--namespace", "default", "--kubeconfig"])
            .arg(&self.kubeconfig);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.folder.path());
        }
        let output = tokio::task::block_in_place(|| command.output()).unwrap();
        let [said, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        output.status.success().then_some(said).ok_or(complaint)
    }
}
