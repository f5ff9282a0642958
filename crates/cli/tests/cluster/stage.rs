//! A namespace with a CloneSet, and what can answer for a manager.

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionCondition,
    },
};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    names::{label, object},
};
use kruise_testkit::{
    builders::{Fixture as _, cloneset, pod},
    cluster,
    eventually::{NotYet, eventually},
    namespace::{self, FreshNamespace},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    process::Child,
    sync::{Mutex, MutexGuard},
    task::AbortHandle,
};

const PATIENCE: Duration = Duration::from_secs(30);
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A cluster that knows CloneSets, but for conversion and webhooks, which nobody answers here.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) namespace: FreshNamespace,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    pub(super) async fn new(test: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let client = cluster::client().await;
        let namespace = namespace::fresh(&client, test).await.unwrap();
        Self {
            client,
            namespace,
            _turn: turn,
        }
    }

    pub(super) async fn with_cloneset(test: &str) -> Self {
        let this = Self::new(test).await;
        let crds = this.crds();
        let params = PatchParams::apply("tests").force();
        crds.patch(CRD, &params, &Patch::Apply(&crd())).await.unwrap();
        let sets: Api<CloneSet> = this.namespace.api();
        let set: CloneSet = serde_json::from_value(cloneset("web").replicas(5).image("nginx").json()).unwrap();
        eventually(PATIENCE, "a CloneSet can be created", || async {
            sets.create(&PostParams::default(), &set).await?;
            Ok(())
        })
        .await;
        let status = json!({"status": {
            "observedGeneration": 1, "replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 2,
            "updatedReadyReplicas": 2, "expectedUpdatedReplicas": 2,
        }});
        let params = PatchParams::default();
        sets.patch_status("web", &params, &Patch::Merge(&status)).await.unwrap();
        this
    }

    /// Takes the newer version away, as in a cluster with an older OpenKruise.
    pub(super) async fn with_old_version_only(&self) {
        let mut old = crd();
        for version in old["spec"]["versions"].as_array_mut().unwrap() {
            let is_old = version["name"] == "v1alpha1";
            (version["served"], version["storage"]) = (json!(is_old), json!(is_old));
        }
        let params = PatchParams::apply("tests").force();
        self.crds().patch(CRD, &params, &Patch::Apply(&old)).await.unwrap();
        let sets: Api<CloneSet> = self.namespace.api();
        eventually(PATIENCE, "the newer version is gone", || async {
            match sets.get("web").await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => Err(NotYet::new(format!("{other:?}"))),
            }
        })
        .await;
    }

    /// With another kind of ours, as its CRD is named.
    pub(super) async fn with_kind(test: &str, name: &str) -> Self {
        let this = Self::new(test).await;
        let crds = this.crds();
        let params = PatchParams::apply("tests").force();
        crds.patch(name, &params, &Patch::Apply(&crd_of(name))).await.unwrap();
        eventually(PATIENCE, "the kind is served", || async {
            let status = crds.get(name).await?.status.unwrap_or_default();
            let is_served = |condition: &CustomResourceDefinitionCondition| {
                condition.type_ == "Established" && condition.status == "True"
            };
            let served = status.conditions.iter().flatten().any(is_served);
            served.then_some(()).ok_or_else(|| NotYet::new(format!("{status:?}")))
        })
        .await;
        this
    }

    fn crds(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    /// A Pod of the manager, and who holds its Lease.
    pub(super) async fn lead(&self, pod_name: &str, holder: &str) {
        let manager = pod(pod_name)
            .image("manager")
            .label(label::CONTROL_PLANE, label::CONTROL_PLANE_MANAGER)
            .build();
        let pods: Api<Pod> = self.namespace.api();
        pods.create(&PostParams::default(), &manager).await.unwrap();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": object::MANAGER_LEASE}, "spec": {
            "holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15,
        }});
        let leases: Api<Lease> = self.namespace.api();
        let params = PatchParams::apply("test").force();
        leases
            .patch(object::MANAGER_LEASE, &params, &Patch::Apply(&lease))
            .await
            .unwrap();
    }

    /// Runs the plugin in this namespace.
    pub(super) async fn kruise(&self, words: &[&str]) -> Output {
        self.run(Command::new(env!("CARGO_BIN_EXE_kubectl-kruise")), words)
            .await
    }

    /// The same, where kubectl is on the path.
    pub(super) async fn kruise_beside_kubectl(&self, words: &[&str]) -> Output {
        let kubectl = PathBuf::from(cluster::kubectl().get_program());
        let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-kruise"));
        plugin.env("PATH", kubectl.parent().unwrap());
        self.run(plugin, words).await
    }

    async fn run(&self, mut plugin: Command, words: &[&str]) -> Output {
        plugin
            .arg("--kubeconfig")
            .arg(cluster::kubeconfig())
            .args(["-n", self.namespace.name()])
            .args(words);
        tokio::task::spawn_blocking(move || plugin.output().unwrap())
            .await
            .unwrap()
    }

    /// Starts the plugin in this namespace; it ends with what is returned.
    pub(super) fn start(&self, words: &[&str]) -> Child {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_kubectl-kruise"))
            .args(words)
            .arg("--kubeconfig")
            .arg(cluster::kubeconfig())
            .args(["-n", self.namespace.name()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// The same, asking for the manager in this namespace.
    pub(super) async fn explain(&self, words: &[&str]) -> Output {
        let here = ["--manager-namespace", self.namespace.name()];
        self.kruise(&[&["explain"], words, &here].concat()).await
    }

    /// Takes the kind away, and waits until it is gone.
    pub(super) async fn without_kind(&self) {
        let crds = self.crds();
        let _ = crds.delete(CRD, &DeleteParams::default()).await;
        eventually(PATIENCE, "the CRD is gone", || async {
            match crds.get_opt(CRD).await? {
                None => Ok(()),
                Some(_) => Err(NotYet::new("still there")),
            }
        })
        .await;
    }
}

const CRD: &str = "clonesets.apps.kruise.io";

fn crd() -> Value {
    crd_of(CRD)
}

fn crd_of(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    let file = format!("../../config/crds/{group}_{plural}.yaml");
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    crd
}

/// Answers as the debug endpoint of a manager does, to one path.
pub(super) struct DebugEndpoint {
    pub(super) port: u16,
    task: AbortHandle,
}

impl DebugEndpoint {
    pub(super) async fn start(path: String, status: &'static str, body: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => asked.push(byte),
                        Err(_) => break,
                    }
                }
                let known = asked.starts_with(format!("GET {path} HTTP/1.1\r\n").as_bytes());
                let (status, body) = if known {
                    (status, body.as_str())
                } else {
                    ("404 Not Found", "another path\n")
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self {
            port,
            task: task.abort_handle(),
        }
    }
}

impl Drop for DebugEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}
