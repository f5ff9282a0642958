//! The network of one cluster: namespaces of its own, so that clusters never meet and nothing is reachable from outside.
//!
//! ```text
//! machine ── 10.213.N.1/30 ── control plane 10.89.0.1 (and 10.96.0.1, the `kubernetes` Service)
//!                                  ├── node1 10.89.0.11, Pods 10.244.1.0/24
//!                                  └── node2 10.89.0.12, Pods 10.244.2.0/24
//! ```
//!
//! Each node has a namespace too, so that a Pod on the host network has its node's ports for itself. Only the small network
//! between the machine and the control plane differs from cluster to cluster.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::shell;

/// Where the control plane answers the nodes, and where they find the registry.
pub const CONTROL_PLANE: &str = "10.89.0.1";
/// The address of the `kubernetes` Service.
pub const KUBERNETES_SERVICE: &str = "10.96.0.1";
pub const SERVICES: &str = "10.96.0.0/16";

/// The most clusters that may run side by side.
const SLOTS: u8 = 64;

/// The namespaces and links of the cluster `name`.
#[derive(Debug, Clone)]
pub struct Network {
    name: String,
    slot: u8,
}

impl Network {
    pub fn new(name: &str, slot: u8) -> Self {
        Self {
            name: name.to_owned(),
            slot,
        }
    }

    /// A slot whose addresses nobody on this machine uses.
    pub fn free_slot(taken: &[u8]) -> Result<u8> {
        let routes = ip(&["-4", "route", "show", "table", "all"])?;
        (0..SLOTS)
            .find(|slot| !taken.contains(slot) && !routes.contains(&format!("10.213.{slot}.")))
            .context("no free network is left for another cluster: end one with `cargo xtask down --name …`")
    }

    /// The control plane as the machine sees it.
    pub fn address(&self) -> String {
        format!("10.213.{}.2", self.slot)
    }

    /// A command that runs on the control plane.
    pub fn on_control_plane(&self, program: impl Into<PathBuf>) -> Command {
        enter(&self.control_plane_namespace(), program)
    }

    /// A command that runs on the network of a node.
    pub fn on_node(&self, node: u8, program: impl Into<PathBuf>) -> Command {
        enter(&self.node_namespace(node), program)
    }

    /// Lays the control plane's network, unless it is there.
    pub fn up(&self) -> Result<()> {
        let (space, link) = (self.control_plane_namespace(), self.link());
        if !exists(&space) {
            ip(&["netns", "add", &space])?;
        }
        let machine = format!("10.213.{}.1/30", self.slot);
        if !shell::succeeds(Command::new("ip").args(["link", "show", &link])) {
            ip(&[
                "link", "add", &link, "type", "veth", "peer", "name", "machine", "netns", &space,
            ])?;
            ip(&["addr", "add", &machine, "dev", &link])?;
            ip(&["link", "set", &link, "up"])?;
        }
        let inside = format!(
            "ip link set lo up; ip addr replace {KUBERNETES_SERVICE}/32 dev lo; \
             ip addr replace {}/30 dev machine; ip link set machine up; \
             ip link show nodes >/dev/null 2>&1 || ip link add nodes type bridge; \
             ip addr replace {CONTROL_PLANE}/24 dev nodes; ip link set nodes up; \
             echo 1 > /proc/sys/net/ipv4/ip_forward",
            self.address()
        );
        shell::run(self.on_control_plane("sh").args(["-ec", &inside])).map(drop)
    }

    /// Connects a node, unless it is.
    pub fn add_node(&self, node: u8) -> Result<()> {
        let (space, link) = (self.node_namespace(node), format!("node{node}"));
        if !exists(&space) {
            ip(&["netns", "add", &space])?;
        }
        let control_plane = self.control_plane_namespace();
        if !shell::succeeds(self.on_control_plane("ip").args(["link", "show", &link])) {
            ip(&[
                "-n",
                &control_plane,
                "link",
                "add",
                &link,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                &space,
            ])?;
        }
        ip(&["-n", &control_plane, "link", "set", &link, "master", "nodes", "up"])?;
        let inside = format!(
            "ip link set lo up; ip addr replace {}/24 dev eth0; ip link set eth0 up; ip route replace default via {CONTROL_PLANE}; \
             ip link show cni0 >/dev/null 2>&1 || ip link add cni0 type bridge; \
             ip addr replace 10.244.{node}.1/24 dev cni0; ip link set cni0 up; echo 1 > /proc/sys/net/ipv4/ip_forward",
            node_address(node)
        );
        shell::run(self.on_node(node, "sh").args(["-ec", &inside]))?;
        ip(&[
            "-n",
            &control_plane,
            "route",
            "replace",
            &format!("10.244.{node}.0/24"),
            "via",
            &node_address(node),
        ])
        .map(drop)
    }

    /// Takes everything down; what is already gone is no error.
    pub fn down(&self) -> Result<()> {
        if shell::succeeds(Command::new("ip").args(["link", "show", &self.link()])) {
            ip(&["link", "delete", &self.link()])?;
        }
        let own = format!("{}-node", self.control_plane_namespace());
        for space in namespaces()? {
            if space == self.control_plane_namespace()
                || space.strip_prefix(&own).is_some_and(|node| node.parse::<u8>().is_ok())
            {
                ip(&["netns", "delete", &space])?;
            }
        }
        Ok(())
    }

    fn control_plane_namespace(&self) -> String {
        format!("kruise-{}", self.name)
    }

    fn node_namespace(&self, node: u8) -> String {
        format!("kruise-{}-node{node}", self.name)
    }

    fn link(&self) -> String {
        format!("kruise{}", self.slot)
    }
}

/// A node as the control plane and the other nodes see it.
pub fn node_address(node: u8) -> String {
    format!("10.89.0.{}", 10 + u16::from(node))
}

/// A socket that listens on the network of a node and is served by this process: a server that only that node sees.
pub fn listen_on_node(cluster: &str, node: u8, address: SocketAddr) -> Result<TcpListener> {
    let network = Network::new(cluster, 0);
    let file = format!("/run/netns/{}", network.node_namespace(node));
    // A socket stays where it was made; only the thread that makes it has to go there.
    let made = std::thread::spawn(move || -> Result<TcpListener> {
        let space = File::open(&file).with_context(|| format!("cannot open {file}"))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    made.join()
        .unwrap_or_else(|_| bail!("the thread that listens has ended"))
}

/// Enters only the network: `ip netns exec` would remount `/sys` and hide the cgroups from the kubelet.
fn enter(namespace: &str, program: impl Into<PathBuf>) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/run/netns/{namespace}"))
        .arg("--")
        .arg(program.into());
    command
}

fn exists(namespace: &str) -> bool {
    namespaces().is_ok_and(|all| all.iter().any(|each| each == namespace))
}

fn namespaces() -> Result<Vec<String>> {
    Ok(ip(&["netns", "list"])?
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect())
}

fn ip(args: &[&str]) -> Result<String> {
    let result = shell::run(Command::new("ip").args(args));
    if result.is_err() && !shell::is_root() {
        bail!("network namespaces need root");
    }
    result
}
