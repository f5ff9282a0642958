//! A real node: containerd and kubelet in a mount namespace of their own.
//!
//! Every node sees the default paths (`/run/containerd`, `/var/lib/kubelet`, …) as its own, so that a DaemonSet with hostPath
//! mounts finds its node's runtime. The namespace is held by a process that does nothing, so that containerd and kubelet
//! can be ended and started again on their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cgroup::Group;
use crate::kubernetes::Kubernetes;
use crate::network::{CONTROL_PLANE, Network, node_address};
use crate::pki::Pki;
use crate::process::{Processes, wait_until};
use crate::{packages, registry, shell};

/// What a node has for itself; folders below `/run` are emptied when it starts, as after a boot.
const OWN_PATHS: &[&str] = &[
    "/run/containerd",
    "/run/netns",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
    "/etc/cni/net.d",
    "/usr/libexec/kubernetes",
];

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Node number `number` of a cluster whose files lie in `folder`.
#[derive(Debug)]
pub struct Node<'a> {
    pub number: u8,
    pub folder: &'a Path,
    pub network: Network,
    pub group: Group,
    pub kubernetes: &'a Kubernetes,
    pub processes: &'a Processes,
}

impl Node<'_> {
    /// Starts what is not running. The node turns Ready some seconds later.
    pub fn start(&self) -> Result<()> {
        self.network.add_node(self.number)?;
        let root = self.group.add(&self.name())?;
        if self.processes.running(&self.part("holder")).is_none() {
            self.stop();
            self.hold()?;
        }
        self.write_containerd_config()?;
        self.start_inside(
            "containerd",
            &format!("exec containerd -c {}", self.file("containerd.toml").display()),
        )?;
        let socket = containerd_socket(self.folder, self.number);
        if !wait_until(Duration::from_secs(30), || {
            socket.exists() || self.processes.running(&self.part("containerd")).is_none()
        }) || !socket.exists()
        {
            bail!(
                "containerd of {} did not start; its last words:\n{}",
                self.name(),
                self.processes.last_words(&self.part("containerd"))
            );
        }
        self.write_kubelet_config(&root)?;
        let kubelet = format!(
            // The runtime's socket is a flag, as kubelets before 1.27 do not know it in their configuration.
            "exec {} --config={} --kubeconfig={} --container-runtime-endpoint=unix:///run/containerd/containerd.sock \
             --hostname-override={} --node-ip={} --v=2",
            self.kubernetes.part("kubelet").display(),
            self.file("kubelet.json").display(),
            self.file("kubeconfig").display(),
            self.name(),
            node_address(self.number)
        );
        self.start_inside("kubelet", &kubelet)
    }

    /// Ends kubelet and containerd; the Pods' processes are ended with the cluster's cgroup.
    pub fn stop(&self) {
        for part in ["kubelet", "containerd", "holder"] {
            self.processes.stop(&self.part(part), Duration::from_secs(10));
        }
    }

    pub fn name(&self) -> String {
        format!("node{}", self.number)
    }

    fn part(&self, program: &str) -> String {
        format!("{}-{program}", self.name())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("nodes").join(self.name()).join(name)
    }

    /// Where one of the node's own paths really lies.
    fn own(&self, path: &str) -> PathBuf {
        own_path(self.folder, &self.name(), path)
    }

    fn hold(&self) -> Result<()> {
        let ready = self.file("held");
        let _ = fs::remove_file(&ready);
        let _ = fs::remove_dir_all(self.own("/run"));
        let mut script = String::from("set -e; mount --make-rshared /; ");
        for path in OWN_PATHS {
            let own = self.own(path);
            fs::create_dir_all(&own).with_context(|| format!("cannot create {}", own.display()))?;
            fs::create_dir_all(path).with_context(|| format!("cannot create {path}"))?;
            script += &format!("mount --bind '{}' {path}; mount --make-rshared {path}; ", own.display());
        }
        script += &format!("touch '{}'; exec sleep infinity", ready.display());
        let part = self.part("holder");
        let mut command = self.network.on_node(self.number, "unshare");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", &script]);
        self.processes.start(&part, &mut command)?;
        if !wait_until(Duration::from_secs(10), || {
            ready.exists() || self.processes.running(&part).is_none()
        }) || !ready.exists()
        {
            bail!(
                "cannot make the mounts of {}: {}",
                self.name(),
                self.processes.last_words(&part)
            );
        }
        Ok(())
    }

    fn start_inside(&self, program: &str, script: &str) -> Result<()> {
        let holder = self
            .processes
            .running(&self.part("holder"))
            .context("the node's mount namespace is gone")?;
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", holder.pid))
            .arg(format!("--net=/proc/{}/ns/net", holder.pid));
        let procs = self.group.system_procs(&self.name());
        command
            .args(["--", "sh", "-ec", &format!("echo $$ > {}; {script}", procs.display())])
            .env("PATH", PATH);
        self.processes.start(&self.part(program), &mut command).map(drop)
    }

    fn write_containerd_config(&self) -> Result<()> {
        let mirrors = self.folder.join("mirrors");
        registry::write_mirrors(&mirrors)?;
        let plugins = packages::cni_folder().context("the CNI plugins are missing")?;
        // Without the right to lower oom scores, as in many containers, runc refuses to start a Pod; hence the restriction.
        let text = format!(
            r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{}"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{}"
"#,
            plugins.display(),
            mirrors.display()
        );
        fs::write(self.file("containerd.toml"), text)?;
        let network = serde_json::json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [{
            "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": format!("10.244.{}.0/24", self.number)}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }]});
        fs::write(
            self.own("/etc/cni/net.d").join("10-bridge.conflist"),
            network.to_string(),
        )?;
        Ok(())
    }

    fn write_kubelet_config(&self, cgroup_root: &str) -> Result<()> {
        let (name, address) = (self.name(), node_address(self.number));
        let pki = Pki::open(&self.folder.join("pki"))?;
        if !pki.file(&format!("{name}.crt")).exists() {
            pki.issue(
                &name,
                &format!("system:node:{name}"),
                Some("system:nodes"),
                &[&name, &address],
            )?;
        }
        pki.kubeconfig(
            &self.file("kubeconfig"),
            &name,
            &format!("https://{CONTROL_PLANE}"),
            &name,
        )?;
        let config = serde_json::json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}, "x509": {"clientCAFile": pki.file("ca.crt")}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": pki.file(&format!("{name}.crt")), "tlsPrivateKeyFile": pki.file(&format!("{name}.key")),
            "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup_root, "enforceNodeAllocatable": [], "failCgroupV1": false, "failSwapOn": false,
            "maxPods": 110, "serializeImagePulls": false, "makeIPTablesUtilChains": false,
            // Every node has the whole machine's disk and memory for its own: how full they are says nothing about the node,
            // and must neither end Pods nor throw away images.
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
            "clusterDNS": ["10.96.0.10"], "providerID": format!("local://{name}"),
            "nodeStatusUpdateFrequency": "5s",
        });
        fs::write(self.file("kubelet.json"), serde_json::to_vec_pretty(&config)?)?;
        Ok(())
    }
}

/// Where one of a node's own paths really lies, in a cluster whose files lie in `folder`.
pub fn own_path(folder: &Path, node: &str, path: &str) -> PathBuf {
    let root = folder.join("nodes").join(node).join("root");
    root.join(path.trim_start_matches('/'))
}

/// The socket of a node's container runtime, in a cluster whose files lie in `folder`.
pub fn containerd_socket(folder: &Path, number: u8) -> PathBuf {
    own_path(folder, &format!("node{number}"), "/run/containerd/containerd.sock")
}

/// Whether this machine can have real nodes at all, and if not, why.
pub fn possible() -> Result<()> {
    if !shell::is_root() {
        bail!("real nodes need root");
    }
    if !Path::new("/sys/fs/cgroup").exists() {
        bail!("real nodes need cgroups mounted at /sys/fs/cgroup");
    }
    Ok(())
}
