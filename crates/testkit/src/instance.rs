//! A local cluster with a name: made, repaired, looked at and ended.
//!
//! Any number of them may live side by side. Each has a folder with all that it owns, and a lock that the kernel frees when
//! the command holding it ends, so that no stale lock can stand in the way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::control_plane::{self, ControlPlane, Place, Ports};
use crate::kubernetes::{self, Kubernetes};
use crate::network::Network;
use crate::node::Node;
use crate::packages::{self, Install};
use crate::process::{Processes, wait_until};
use crate::progress::Progress;
use crate::registry::Registry;
use crate::{image, paths, shell, storage};

/// What a cluster is to look like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The Kubernetes version, all three numbers.
    pub kubernetes: String,
    /// Real nodes; none without root.
    pub nodes: u8,
    /// The number that tells this cluster's network from others'; none when it lives on the loopback address.
    slot: Option<u8>,
}

/// A cluster that may or may not run. While it is held, no other command works on it.
#[derive(Debug)]
pub struct Instance {
    name: String,
    folder: PathBuf,
    processes: Processes,
    _lock: File,
}

impl Instance {
    /// Takes hold of the cluster `name`; whether it exists shows in [`Instance::shape`].
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        let all = folder_of_all()?;
        let lock = File::create(all.join(format!("{name}.lock")))?;
        if lock.try_lock().is_err() {
            bail!("another command is working on the cluster {name}: wait for it, or choose another name with --name");
        }
        let folder = all.join(name);
        Ok(Self {
            name: name.to_owned(),
            processes: Processes::below(&folder)?,
            folder,
            _lock: lock,
        })
    }

    /// The names of all clusters that left something on this machine.
    pub fn names() -> Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(folder_of_all()?)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("cluster.json").exists())
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the cluster was made, when it was.
    pub fn shape(&self) -> Option<Shape> {
        shape_in(&self.folder)
    }

    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// The folder with all that the cluster owns.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub fn registry(&self) -> Registry {
        Registry::new(&self.folder.join("registry"))
    }

    /// The programs of the version that the cluster was made with.
    pub fn kubernetes(&self) -> Result<Kubernetes> {
        let shape = self
            .shape()
            .with_context(|| format!("there is no cluster {}", self.name))?;
        Kubernetes::provide(&shape.kubernetes, &Progress::quiet())
    }

    /// A folder of programs that fit this cluster, for its users' PATH.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// A kubectl that talks to this cluster.
    pub fn kubectl(&self, kubernetes: &Kubernetes) -> Command {
        let mut command = Command::new(kubernetes.part("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// Brings up the control plane and `nodes` real nodes, or what is missing of them. A cluster of another shape is
    /// refused; one whose control plane cannot be repaired is replaced.
    pub fn up(&self, wanted: &Wanted, progress: &Progress) -> Result<Kubernetes> {
        let shape = self.agree(wanted)?;
        self.check_the_machine(&shape, wanted.install)?;
        packages::ensure(packages::CONTROL_PLANE, false, wanted.install, progress)?;
        if shape.nodes > 0 {
            packages::ensure(packages::NODES, true, wanted.install, progress)?;
        }
        let kubernetes = Kubernetes::provide(&shape.kubernetes, progress)?;
        let shape = self.settle(shape)?;
        let existed = self.folder.join("etcd").exists();
        let started = progress.step("Starting the control plane", |_| {
            self.start_control_plane(&shape, &kubernetes)
        });
        if let Err(error) = started {
            if !existed {
                return Err(error);
            }
            progress.say(&format!("  the cluster cannot be repaired and is replaced: {error:#}"));
            self.down(true)?;
            self.settle(shape.clone())?;
            progress.step("Starting a new control plane", |_| {
                self.start_control_plane(&shape, &kubernetes)
            })?;
        }
        if shape.nodes > 0 {
            progress.step(&format!("Starting {} nodes", shape.nodes), |step| {
                for (number, node) in self.nodes(&shape, &kubernetes).iter().enumerate() {
                    step.at(number as u64, shape.nodes.into(), &node.name());
                    node.start()?;
                }
                self.wait_for_nodes(&shape, &kubernetes)
            })?;
        }
        Ok(kubernetes)
    }

    /// Ends what `up` started, and nothing else; with `purge` also forgets the data.
    pub fn down(&self, purge: bool) -> Result<()> {
        for part in self.processes.parts() {
            if !control_plane::PARTS.contains(&part.as_str()) && !part.ends_with("-holder") && part != "registry" {
                self.processes.stop(&part, Duration::from_secs(10));
            }
        }
        let shape = self.shape();
        if shape.as_ref().is_some_and(|shape| shape.nodes > 0) {
            Group::of(&self.name).end();
        }
        control_plane::stop(&self.processes);
        for part in self.processes.parts() {
            self.processes.stop(&part, Duration::from_secs(5));
        }
        if let Some(network) = shape.and_then(|shape| self.network(&shape)) {
            network.down()?;
        }
        if purge {
            control_plane::purge(&self.folder)?;
        }
        Ok(())
    }

    /// Every part with whether it runs.
    pub fn status(&self) -> BTreeMap<String, bool> {
        self.processes
            .parts()
            .into_iter()
            .map(|part| (part.clone(), self.processes.running(&part).is_some()))
            .collect()
    }

    /// Names everything that stands in the way at once, before anything is changed.
    fn check_the_machine(&self, shape: &Shape, install: Install) -> Result<()> {
        let mut missing = packages::missing(packages::CONTROL_PLANE, false);
        if shape.nodes > 0 {
            missing.extend(packages::missing(packages::NODES, true));
        }
        let room =
            paths::lacks_room(&self.folder, ROOM_FOR_A_CLUSTER).map(|lack| format!("{lack} for the data of a cluster"));
        let obstacles: Vec<String> = [
            packages::obstacle(&missing, install),
            Kubernetes::obstacle(&shape.kubernetes)?,
            room,
        ]
        .into_iter()
        .flatten()
        .collect();
        if !obstacles.is_empty() {
            bail!(
                "the cluster {} cannot be started:\n- {}",
                self.name,
                obstacles.join("\n- ")
            );
        }
        Ok(())
    }

    /// What was asked for, or what is there already, when both agree.
    fn agree(&self, wanted: &Wanted) -> Result<Shape> {
        let version = |text: &str| kubernetes::full_version(text);
        if let Some(shape) = self.shape() {
            if let Some(asked) = &wanted.kubernetes
                && version(asked)? != shape.kubernetes
            {
                bail!(
                    "the cluster {} runs Kubernetes {}: `cargo xtask down --purge` first, or choose another --name",
                    self.name,
                    shape.kubernetes
                );
            }
            if wanted.nodes.is_some_and(|nodes| nodes != shape.nodes) {
                bail!(
                    "the cluster {} has {} real nodes: `cargo xtask down --purge` first, or choose another --name",
                    self.name,
                    shape.nodes
                );
            }
            return Ok(shape);
        }
        let kubernetes = version(wanted.kubernetes.as_deref().unwrap_or(kubernetes::DEFAULT_VERSION))?;
        Ok(Shape {
            kubernetes,
            nodes: wanted.nodes.unwrap_or(0),
            slot: None,
        })
    }

    /// Writes the shape down, with a network chosen when nodes need one.
    fn settle(&self, mut shape: Shape) -> Result<Shape> {
        let all = folder_of_all()?;
        let lock = File::create(all.join("networks.lock"))?;
        lock.lock()?;
        if shape.nodes > 0 && shape.slot.is_none() {
            let taken: Vec<u8> = Self::names()?
                .iter()
                .filter_map(|name| shape_in(&all.join(name))?.slot)
                .collect();
            shape.slot = Some(Network::free_slot(&taken)?);
        }
        fs::create_dir_all(&self.folder)?;
        Processes::below(&self.folder)?;
        fs::write(self.folder.join("cluster.json"), serde_json::to_vec_pretty(&shape)?)?;
        Ok(shape)
    }

    fn start_control_plane(&self, shape: &Shape, kubernetes: &Kubernetes) -> Result<()> {
        let place = match self.network(shape) {
            Some(network) => {
                network.up()?;
                Place::Network(network)
            }
            None => Place::Loopback(self.ports()?),
        };
        ControlPlane {
            folder: &self.folder,
            name: &self.name,
            place: &place,
            kubernetes,
            processes: &self.processes,
        }
        .start()?;
        if let Place::Network(network) = &place {
            let registry = self.registry();
            for (name, tag, image) in image::stand_ins()? {
                registry.put(name, tag, &image)?;
            }
            registry.start(&self.processes, network)?;
            let class = self.folder.join("storage.json");
            fs::write(&class, storage::default_class().to_string())?;
            shell::run(self.kubectl(kubernetes).args(["apply", "-f"]).arg(&class))?;
        }
        Ok(())
    }

    /// The ports of a running control plane, or new ones: those of a stopped one may belong to somebody else by now.
    fn ports(&self) -> Result<Ports> {
        let file = self.folder.join("ports.json");
        if self.processes.running("apiserver").is_some() {
            return serde_json::from_slice(&fs::read(&file)?)
                .with_context(|| format!("cannot read {}", file.display()));
        }
        control_plane::stop(&self.processes);
        let ports = Ports::free()?;
        fs::write(&file, serde_json::to_vec(&ports)?)?;
        Ok(ports)
    }

    fn wait_for_nodes(&self, shape: &Shape, kubernetes: &Kubernetes) -> Result<()> {
        let mut last = String::new();
        let ready = wait_until(Duration::from_mins(2), || {
            let jsonpath =
                r#"-ojsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}"#;
            last = shell::run(self.kubectl(kubernetes).args(["get", "nodes", jsonpath]))
                .unwrap_or_else(|error| error.to_string());
            (1..=shape.nodes).all(|number| last.split_whitespace().any(|word| word == format!("node{number}=True")))
        });
        if !ready {
            let words = (1..=shape.nodes)
                .map(|number| self.processes.last_words(&format!("node{number}-kubelet")))
                .next()
                .unwrap_or_default();
            bail!("not all nodes are Ready after two minutes: {last}\nlast words of the first kubelet:\n{words}");
        }
        Ok(())
    }

    fn nodes<'a>(&'a self, shape: &Shape, kubernetes: &'a Kubernetes) -> Vec<Node<'a>> {
        let Some(network) = self.network(shape) else {
            return Vec::new();
        };
        let group = Group::of(&self.name);
        let node = |number| Node {
            number,
            folder: &self.folder,
            network: network.clone(),
            group: group.clone(),
            kubernetes,
            processes: &self.processes,
        };
        (1..=shape.nodes).map(node).collect()
    }

    fn network(&self, shape: &Shape) -> Option<Network> {
        shape.slot.map(|slot| Network::new(&self.name, slot))
    }
}

/// Starts what is missing of one node. For tests that end parts of a node while the command that runs them holds the cluster.
pub fn repair_node(folder: &Path, number: u8) -> Result<()> {
    let shape = shape_in(folder).with_context(|| format!("{} is no cluster", folder.display()))?;
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .context("a cluster without a name")?;
    let slot = shape.slot.context("the cluster has no real nodes")?;
    Node {
        number,
        folder,
        network: Network::new(name, slot),
        group: Group::of(name),
        kubernetes: &Kubernetes::provide(&shape.kubernetes, &Progress::quiet())?,
        processes: &Processes::below(folder)?,
    }
    .start()
}

/// What the caller of [`Instance::up`] asks for; what is left open stays as it is, or gets its default.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub kubernetes: Option<String>,
    pub nodes: Option<u8>,
    pub install: Install,
}

const ROOM_FOR_A_CLUSTER: u64 = 1 << 30;

fn shape_in(folder: &Path) -> Option<Shape> {
    serde_json::from_slice(&fs::read(folder.join("cluster.json")).ok()?).ok()
}

fn folder_of_all() -> Result<PathBuf> {
    let folder = paths::state()?.join("clusters");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// The name becomes part of network namespaces, cgroups and folders.
fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= 20
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !fits || name.starts_with('-') || name.ends_with('-') {
        bail!("{name:?} cannot name a cluster: use up to 20 lower-case letters, digits and dashes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["dev", "a", "test-1"] {
            check_name(good).unwrap();
        }
        for bad in ["", "-a", "a-", "Dev", "a/b", "a b", "..", "a-name-that-is-far-too-long"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
