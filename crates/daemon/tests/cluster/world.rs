//! A node: its name, its container runtime, its daemon.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use kruise_cri::fake::FakeRuntime;
use kruise_daemon::{Flags, Settings, run::run_through};
use kruise_runtime::{flags::parse, shutdown::CancellationToken};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually},
    faults::Faults,
    kubernetes,
    namespace::{self, FreshNamespace},
    progress::Progress,
};
use kube::{
    Api, Client, Config, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::OnceCell, task::JoinHandle};

pub(super) const PATIENCE: Duration = Duration::from_secs(40);
/// Where the daemon may read Secrets.
pub(super) const SECRETS: &str = "kruise-daemon-config";
/// Of our kinds, the older one first.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// Where the chart is installed; only names of it are used.
const SYSTEM: &str = "kruise-system";

/// A node with a runtime, and perhaps a daemon.
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) runtime: FakeRuntime,
    pub(super) space: FreshNamespace,
    /// Of NodeImages, as the tests speak of them.
    api_version: String,
    kubeconfig: PathBuf,
    folder: TempDir,
}

/// A running daemon.
pub(super) struct Daemon {
    pub(super) faults: Faults,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Node {
    /// A new node. The kinds and the daemon's rights are installed with the first one.
    pub(super) async fn new(test: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let client = cluster::client().await;
        INSTALLED.get_or_init(|| install(&client, &VERSIONS)).await;
        Self::on(&cluster::kubeconfig(), client.clone(), VERSIONS[1], test).await
    }

    /// A node of a cluster that knows our kinds in the older version only.
    pub(super) async fn of_older_crds(kubeconfig: &Path, test: &str) -> Self {
        let config = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        install(&client, &VERSIONS[..1]).await;
        Self::on(kubeconfig, client, VERSIONS[0], test).await
    }

    async fn on(kubeconfig: &Path, client: Client, version: &str, test: &str) -> Self {
        static NODES: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{test}-{}-{number}", std::process::id());
        let object =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": true}});
        apply(&client, &object).await;
        Self {
            api_version: format!("apps.kruise.io/{version}"),
            kubeconfig: as_daemon(kubeconfig, folder.path()),
            runtime: FakeRuntime::start(&folder.path().join("containerd.sock")),
            space: namespace::fresh(&client, test).await.unwrap(),
            name,
            folder,
            client,
        }
    }

    /// From now on its daemon uses this kubeconfig.
    pub(super) fn acts_as(&mut self, kubeconfig: PathBuf) {
        self.kubeconfig = kubeconfig;
    }

    /// A folder that goes with it.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the daemon with these flags besides the usual ones, and waits until it watches.
    pub(super) async fn daemon(&self, flags: &[&str]) -> Daemon {
        let daemon = self.daemon_with(flags, Faults::new(1));
        eventually(PATIENCE, "the daemon watches", || async {
            let lists =
                ["nodeimages", "containerrecreaterequests", "pods"].map(|kind| daemon.faults.count("watch", kind));
            assert!(!daemon.task.is_finished(), "the daemon has ended");
            lists
                .iter()
                .all(|count| *count > 0)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{:?}", daemon.faults.calls())))
        })
        .await;
        daemon
    }

    /// Starts the daemon in a world with faults.
    pub(super) fn daemon_with(&self, flags: &[&str], faults: Faults) -> Daemon {
        let usual = [
            "kruise-daemon".to_owned(),
            "--addr=127.0.0.1:0".to_owned(),
            "--enable-pprof=false".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
        ];
        let flags: Flags = parse(usual.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned()))).unwrap();
        let mut settings = Settings::read(flags, |name| (name == "NODE_NAME").then(|| self.name.clone())).unwrap();
        self.folder.path().clone_into(&mut settings.sockets);
        let stop = CancellationToken::new();
        let (token, dialled) = (stop.clone(), faults.clone());
        let task = tokio::spawn(run_through(settings, token, move |config, _| {
            Ok(dialled.client_of(config))
        }));
        Daemon { faults, stop, task }
    }

    /// Makes or replaces the NodeImage, as the manager would.
    pub(super) async fn ask_for(&self, images: &Value) {
        let object = json!({
            "apiVersion": self.api_version, "kind": "NodeImage",
            "metadata": {"name": self.name}, "spec": {"images": images},
        });
        let api = dynamic(&self.client, &object);
        if api.get_opt(&self.name).await.unwrap().is_none() {
            return apply(&self.client, &object).await;
        }
        let patch = json!([{"op": "replace", "path": "/spec/images", "value": images}]);
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
        api.patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The status of the NodeImage.
    pub(super) async fn image_status(&self) -> kube::Result<Value> {
        let object = json!({"apiVersion": self.api_version, "kind": "NodeImage", "metadata": {}});
        let image = dynamic(&self.client, &object).get(&self.name).await?;
        Ok(image.data["status"].clone())
    }

    /// Waits until a tag of an image is in a phase, for a version.
    pub(super) async fn tag_becomes(&self, name: &str, tag: &str, phase: &str, version: i64) -> Value {
        eventually(PATIENCE, &format!("{name}:{tag} is {phase}"), || async {
            let status = self.image_status().await?;
            let found = tag_of(&status, name, tag);
            if found["phase"] == phase && found["version"].as_i64().unwrap_or(0) == version {
                Ok(found)
            } else {
                Err(NotYet::from(status))
            }
        })
        .await
    }

    /// Waits for an event with this reason on an object.
    pub(super) async fn event(&self, object: &str, reason: &str) -> Event {
        let api: Api<Event> = Api::all(self.client.clone());
        let list = ListParams::default().fields(&format!("involvedObject.name={object},reason={reason}"));
        eventually(PATIENCE, &format!("{reason} on {object}"), || async {
            let found = api.list(&list).await?.items.into_iter();
            // Events about objects of the cluster are in `default`; other tests have objects of the same name elsewhere.
            let here = [self.space.name(), "default"];
            let mut found = found.filter(|event| {
                event
                    .metadata
                    .namespace
                    .as_deref()
                    .is_some_and(|place| here.contains(&place))
            });
            found.next().ok_or_else(|| NotYet::new("no event"))
        })
        .await
    }

    /// A running Pod of this node, with a container of each name in the runtime. Its owner is of this API version.
    pub(super) async fn pod(&self, name: &str, owner: &str, containers: &Value) -> Pod {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {"w": "1"}, "ownerReferences": [
                {"apiVersion": owner, "kind": "Anything", "name": "owner", "uid": "00000000-0000-0000-0000-000000000001", "controller": true},
            ]},
            "spec": {"nodeName": self.name, "containers": containers, "terminationGracePeriodSeconds": 3},
        });
        let pods: Api<Pod> = self.space.api();
        let made = pods
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
        let uid = made.metadata.uid.clone().unwrap();
        let place = (self.space.name().to_owned(), name.to_owned());
        self.runtime.world().pods.insert(uid.clone(), place);
        for container in containers.as_array().unwrap() {
            let name = container["name"].as_str().unwrap();
            let labels = [
                ("io.kubernetes.container.hash", "19fd1bfc"),
                ("io.kubernetes.pod.terminationGracePeriod", "3"),
            ];
            self.runtime.world().run(&uid, name, &labels);
        }
        self.tell_status(name).await
    }

    /// Does what the kubelet does: says in the Pod's status which containers run.
    pub(super) async fn tell_status(&self, name: &str) -> Pod {
        let pods: Api<Pod> = self.space.api();
        let pod = pods.get(name).await.unwrap();
        let uid = pod.metadata.uid.clone().unwrap();
        let statuses: Vec<Value> = pod
            .spec
            .as_ref()
            .unwrap()
            .containers
            .iter()
            .filter_map(|container| {
                let world = self.runtime.world();
                let runs = world.of(&uid, &container.name)?;
                Some(json!({
                    "name": container.name, "image": "i", "imageID": "i", "ready": true, "restartCount": runs.restart_count,
                    "containerID": format!("containerd://{}", runs.id), "state": {"running": {}},
                }))
            })
            .collect();
        let patch = json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": statuses}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }
}

/// The entry of a tag in the status of a NodeImage.
pub(super) fn tag_of(status: &Value, name: &str, tag: &str) -> Value {
    let tags = status["imageStatuses"][name]["tags"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    tags.into_iter().find(|found| found["tag"] == tag).unwrap_or_default()
}

impl Daemon {
    /// Stops it as the kubelet does. It has to end well.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it without a word, as `kill -9` does.
    pub(super) async fn kill(self) {
        self.faults.crash();
        self.faults.until_crashed().await;
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Waits for its own end and says why.
    pub(super) async fn ends(self) -> anyhow::Result<()> {
        self.task.await.unwrap()
    }
}

/// What the chart makes with these values.
pub(super) fn rendered(values: &[String]) -> Vec<Value> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/kruise");
    let output = Command::new(kubernetes::helm(&Progress::quiet()).unwrap())
        .args(["template", "kruise", "--kube-version", kubernetes::DEFAULT_VERSION])
        .arg(chart)
        .arg("--set=manager.image.tag=test")
        .args(values.iter().map(|value| format!("--set={value}")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// The kinds that the daemon uses, in these versions, and its rights, as the chart has them.
async fn install(client: &Client, versions: &[&str]) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in [SECRETS, SYSTEM] {
        if namespaces.get_opt(name).await.unwrap().is_none() {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply(client, &object).await;
        }
    }
    for mut object in rendered(&[]) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let wanted = match object["kind"].as_str().unwrap_or_default() {
            "CustomResourceDefinition" => ["nodeimages.", "containerrecreaterequests.", "nodepodprobes."]
                .iter()
                .any(|plural| name.starts_with(plural)),
            "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => name.starts_with("kruise-daemon-"),
            _ => false,
        };
        if wanted {
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                // Nobody serves it here.
                spec.remove("conversion");
                let served = spec["versions"].as_array_mut().unwrap();
                served.retain(|version| versions.iter().any(|name| version["name"] == *name));
                served.last_mut().unwrap()["storage"] = json!(true);
            }
            apply(client, &object).await;
            established(client, &object).await;
        }
    }
}

async fn established(client: &Client, object: &Value) {
    if object["kind"] != "CustomResourceDefinition" {
        return;
    }
    let (api, name) = (dynamic(client, object), object["metadata"]["name"].as_str().unwrap());
    eventually(PATIENCE, "the CRD is established", || async {
        let live = api.get(name).await?;
        let conditions = live.data["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        conditions.iter().any(is).then_some(()).ok_or_else(|| NotYet::new(name))
    })
    .await;
}

/// Objects of any kind.
pub(super) fn dynamic(client: &Client, object: &Value) -> Api<DynamicObject> {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub(super) async fn apply(client: &Client, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("tests").force();
    let applied = dynamic(client, object)
        .patch(name, &params, &Patch::Apply(object))
        .await;
    applied.unwrap_or_else(|error| panic!("{} {name}: {error}", object["kind"]));
}

/// Reads an object until it is as it should be.
pub(super) async fn becomes<K>(api: &Api<K>, name: &str, what: &str, good: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    eventually(PATIENCE, what, || async {
        let object = api.get(name).await?;
        if good(&object) {
            Ok(object)
        } else {
            Err(kruise_testkit::eventually::not_yet(&object))
        }
    })
    .await
}

/// A kubeconfig with no more rights than the chart gives the daemon.
fn as_daemon(kubeconfig: &Path, folder: &Path) -> PathBuf {
    let mut config = Kubeconfig::read_from(kubeconfig).unwrap();
    for user in config.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        user.impersonate = Some(format!("system:serviceaccount:{SYSTEM}:kruise-daemon"));
        user.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
        ]);
    }
    let file = folder.join("kubeconfig");
    std::fs::write(&file, serde_json::to_string(&config).unwrap()).unwrap();
    file
}
