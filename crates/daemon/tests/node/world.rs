//! The cluster, its daemons, and their processes.

use std::{
    path::PathBuf,
    process::Command,
    sync::{Arc, LazyLock},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, not_yet},
    kubernetes::{DEFAULT_VERSION, Kubernetes},
    namespace::{self, FreshNamespace},
    progress::Progress,
    shell,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A busy machine pulls and starts slowly.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
pub(super) const SYSTEM: &str = "kruise-system";
/// The nodes of the cluster, the first has number 1.
pub(super) const NODES: [&str; 3] = ["node1", "node2", "node3"];

/// Tests that end parts of the nodes have them for themselves; all others share them.
static NODES_IN_USE: LazyLock<Arc<RwLock<()>>> = LazyLock::new(Arc::default);

/// Who kills a daemon holds this together with others who do. Who counts what daemons say holds it alone: one that is killed before it could report does
/// some things twice.
pub(super) static DAEMONS: RwLock<()> = RwLock::const_new(());

#[allow(dead_code)] // only held
enum Turn {
    Shared(OwnedRwLockReadGuard<()>),
    Alone(OwnedRwLockWriteGuard<()>),
}

/// One node of the cluster, and a namespace for what runs there.
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) name: &'static str,
    pub(super) space: Arc<FreshNamespace>,
    turn: Arc<Turn>,
}

impl Node {
    pub(super) async fn new(name: &'static str) -> Self {
        let turn = Turn::Shared(Arc::clone(&NODES_IN_USE).read_owned().await);
        Self::with(name, turn).await
    }

    /// While this lives, no other test works on any node. Asks instead of standing in line, where others would wait behind it.
    pub(super) async fn alone(name: &'static str) -> Self {
        let turn = eventually(6 * PATIENCE, "nobody else uses the nodes", || async {
            let free = Arc::clone(&NODES_IN_USE).try_write_owned();
            free.map_err(|error| NotYet::new(error.to_string()))
        })
        .await;
        Self::with(name, Turn::Alone(turn)).await
    }

    async fn with(name: &'static str, turn: Turn) -> Self {
        let client = cluster::nodes_client().await;
        let space = namespace::fresh(&client, &format!("daemon-{name}")).await.unwrap();
        let this = Self {
            client,
            name,
            space: Arc::new(space),
            turn: Arc::new(turn),
        };
        // The manager makes them half a minute after a node has become ready; jobs choose among them.
        eventually(PATIENCE, "every node has a NodeImage", || async {
            let found = this.images().list(&ListParams::default()).await?.items.len();
            (found >= NODES.len())
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found} NodeImages")))
        })
        .await;
        this
    }

    /// Another node, with the same namespace.
    pub(super) fn other(&self, name: &'static str) -> Self {
        Self {
            client: self.client.clone(),
            name,
            space: Arc::clone(&self.space),
            turn: Arc::clone(&self.turn),
        }
    }

    /// The Pod of the node's daemon.
    pub(super) async fn daemon(&self) -> Pod {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let list = self.daemons();
        eventually(PATIENCE, "the daemon is ready", || async {
            let mut found = pods.list(&list).await?.items;
            found.retain(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
            found.pop().ok_or_else(|| NotYet::new("no daemon"))
        })
        .await
    }

    /// The process of the node's daemon.
    pub(super) async fn daemon_process(&self) -> u32 {
        let daemon = self.daemon().await;
        process_of(&daemon).expect("the daemon's process")
    }

    /// The same, when there is one right now.
    pub(super) async fn running_daemon(&self) -> Option<u32> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let found = pods.list(&self.daemons()).await.unwrap().items;
        found.iter().find_map(process_of)
    }

    fn daemons(&self) -> ListParams {
        ListParams::default()
            .labels("control-plane=daemon")
            .fields(&format!("spec.nodeName={}", self.name))
    }

    /// Ends the daemon the hard way. The kubelet starts it again.
    pub(super) async fn kill_daemon(&self) {
        let before = restarts(&self.daemon().await);
        let pid = self.daemon_process().await;
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        eventually(PATIENCE, "the daemon is started again", || async {
            let now = restarts(&self.daemon().await);
            (now > before)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{now} restarts")))
        })
        .await;
    }

    /// Memory of the daemon, in bytes.
    pub(super) async fn daemon_memory(&self) -> u64 {
        let pid = self.daemon_process().await;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Runs a Pod on this node and waits until it is ready.
    pub(super) async fn runs(&self, pod: &Value) -> Pod {
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = json!(self.name);
        let pods: Api<Pod> = self.space.api();
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
        becomes(&pods, &name, "the Pod is ready", is_ready).await
    }

    pub(super) async fn config_map(&self, object: &Value) {
        let maps: Api<ConfigMap> = self.space.api();
        let object = serde_json::from_value(object.clone()).unwrap();
        maps.create(&PostParams::default(), &object).await.unwrap();
    }

    /// NodeImages.
    pub(super) fn images(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "NodeImage");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// Changes which images the node is to have; `null` takes one away.
    pub(super) async fn ask_for(&self, images: &Value) {
        let api = self.images();
        let patch = json!({"spec": {"images": images}});
        if api.get_opt(self.name).await.unwrap().is_none() {
            let object = json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": self.name}, "spec": {"images": {}},
            });
            // The manager may be quicker.
            let _ = api
                .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                .await;
        }
        api.patch(self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until a tag is in a phase.
    pub(super) async fn tag_becomes(&self, name: &str, tag: &str, phase: &str) -> Value {
        eventually(PATIENCE, &format!("{name}:{tag} is {phase}"), || async {
            let found = self.tag(name, tag).await?;
            if found["phase"] == phase {
                Ok(found)
            } else {
                Err(not_yet(&found))
            }
        })
        .await
    }

    /// What the NodeImage says of a tag.
    pub(super) async fn tag(&self, name: &str, tag: &str) -> kube::Result<Value> {
        let image = self.images().get(self.name).await?;
        let tags = image.data["status"]["imageStatuses"][name]["tags"].as_array().cloned();
        Ok(tags
            .into_iter()
            .flatten()
            .find(|found| found["tag"] == tag)
            .unwrap_or_default())
    }
}

/// The process of a daemon, found by the control group of its Pod.
fn process_of(daemon: &Pod) -> Option<u32> {
    let uid = daemon.metadata.uid.clone()?;
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = groups.contains(&uid) || groups.contains(&uid.replace('-', "_"));
        (ours && command.starts_with("/kruise-daemon")).then_some(pid)
    })
}

/// Runs kubectl and returns what it said.
pub(super) fn kubectl(args: &[&str]) -> String {
    let kubernetes = Kubernetes::provide(DEFAULT_VERSION, &Progress::quiet()).unwrap();
    let mut command = Command::new(kubernetes.part("kubectl"));
    command.arg("--kubeconfig").arg(cluster::nodes_kubeconfig()).args(args);
    shell::run(&mut command).unwrap()
}

/// The folder with all that the cluster owns.
pub(super) fn cluster_folder() -> PathBuf {
    let mut folder = cluster::nodes_kubeconfig();
    folder.pop();
    folder
}

pub(super) fn cluster_name() -> String {
    let folder = cluster_folder();
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// How often the first container was restarted.
pub(super) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .and_then(|statuses| statuses.first())
        .map_or(0, |status| status.restart_count)
}

/// ID of the first container.
pub(super) fn container_id(pod: &Pod) -> String {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .and_then(|statuses| statuses.first())
        .and_then(|status| status.container_id.clone())
        .unwrap_or_default()
}

/// Reads an object until it is as it should be.
pub(super) async fn becomes<K>(api: &Api<K>, name: &str, what: &str, good: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    eventually(PATIENCE, what, || async {
        let object = api.get(name).await?;
        if good(&object) {
            Ok(object)
        } else {
            Err(not_yet(&object))
        }
    })
    .await
}
