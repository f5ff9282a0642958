//! The cgroups of a cluster's nodes: `/kruise-<cluster>/<node>` in every hierarchy.
//!
//! The kubelet puts Pods below it, and the container runtime itself runs in `…/system`, so that the group always holds
//! exactly the processes that belong to the node, however they were started. That is how they are found when it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::process::{Identity, wait_until};

const MOUNT: &str = "/sys/fs/cgroup";

/// The group of a cluster.
#[derive(Debug, Clone)]
pub struct Group {
    name: String,
}

impl Group {
    pub fn of(cluster: &str) -> Self {
        Self {
            name: format!("kruise-{cluster}"),
        }
    }

    /// Makes the group of a node and returns the path that the kubelet calls its root.
    pub fn add(&self, node: &str) -> Result<String> {
        let path = format!("{}/{node}", self.name);
        for hierarchy in hierarchies() {
            for level in [&self.name, &path, &format!("{path}/system")] {
                let folder = hierarchy.join(level);
                fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot create the cgroup {}", folder.display()))?;
                inherit_cpus(&folder);
            }
        }
        Ok(format!("/{path}"))
    }

    /// The file that takes a process into the group of a node's own programs.
    pub fn system_procs(&self, node: &str) -> PathBuf {
        tracking().join(&self.name).join(node).join("system/cgroup.procs")
    }

    /// Ends every process in the group and removes the group.
    pub fn end(&self) {
        let tracked = tracking().join(&self.name);
        wait_until(Duration::from_secs(20), || {
            let left = processes(&tracked);
            for process in &left {
                process.signal(Signal::KILL);
            }
            left.is_empty()
        });
        for hierarchy in hierarchies() {
            wait_until(Duration::from_secs(5), || {
                remove(&hierarchy.join(&self.name));
                !hierarchy.join(&self.name).exists()
            });
        }
    }
}

/// One folder per controller on version 1, one for all on version 2.
fn hierarchies() -> Vec<PathBuf> {
    if Path::new(MOUNT).join("cgroup.controllers").exists() {
        return vec![MOUNT.into()];
    }
    let mut found: Vec<PathBuf> = fs::read_dir(MOUNT)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|folder| !folder.is_symlink() && folder.join("cgroup.procs").exists())
        .collect();
    found.sort();
    found
}

/// The hierarchy that is asked which processes there are.
fn tracking() -> PathBuf {
    let pids = Path::new(MOUNT).join("pids");
    if pids.join("cgroup.procs").exists() {
        pids
    } else {
        MOUNT.into()
    }
}

/// A new cpuset of version 1 is empty and takes no process until it has processors and memory.
fn inherit_cpus(folder: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = folder.join(file);
        if fs::read_to_string(&own).is_ok_and(|text| text.trim().is_empty())
            && let Some(given) = folder
                .parent()
                .and_then(|parent| fs::read_to_string(parent.join(file)).ok())
        {
            let _ = fs::write(own, given.trim());
        }
    }
}

fn processes(folder: &Path) -> Vec<Identity> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<Identity> = own
        .lines()
        .filter_map(|line| Identity::of(line.parse().ok()?))
        .collect();
    found.extend(children(folder).iter().flat_map(|child| processes(child)));
    found
}

fn remove(folder: &Path) {
    for child in children(folder) {
        remove(&child);
    }
    let _ = fs::remove_dir(folder);
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect()
}
