//! What the chart installs, with its webhooks for one namespace only, and managers on top of it.

use std::{
    fmt::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kruise_manager::{Settings, run::run_through};
use kruise_runtime::{flags::parse, shutdown::CancellationToken};
use kruise_testkit::{
    builders::{Fixture as _, cloneset, pod},
    cluster,
    eventually::{NotYet, eventually},
    faults::Faults,
    namespace::{self, FreshNamespace},
    service,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Mutex, MutexGuard},
    task::JoinHandle,
};

use super::chart::{Kinds, REACHED, api, apply, as_service_account, carries_ca, config, name, rendered};

pub(super) const PATIENCE: Duration = Duration::from_secs(40);
const SERVICE: &str = "kruise-webhook-service";
pub(super) const CERTS: &str = "kruise-webhook-certs";

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Everything but managers.
pub(super) struct World {
    pub(super) client: Client,
    /// Where managers live; their webhooks do not reach it.
    pub(super) system: FreshNamespace,
    /// Where their webhooks reach.
    pub(super) work: FreshNamespace,
    kubeconfig: PathBuf,
    directory: TempDir,
    pub(super) objects: Vec<Value>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl World {
    pub(super) async fn new(test: &str) -> Self {
        Self::on(&cluster::kubeconfig(), test).await
    }

    /// On a control plane of the test's own.
    pub(super) async fn on(kubeconfig: &Path, test: &str) -> Self {
        Self::knowing(Kinds::Few, kubeconfig, test).await
    }

    pub(super) async fn knowing(kinds: Kinds, kubeconfig: &Path, test: &str) -> Self {
        // A control plane of the test's own is nobody else's.
        let turn = if kubeconfig == cluster::kubeconfig() {
            Some(ONE_AT_A_TIME.lock().await)
        } else {
            None
        };
        let client = Client::try_from(config(kubeconfig).await).unwrap();
        let system = namespace::fresh(&client, &format!("{test}-system")).await.unwrap();
        let this = Self::around(system, client, kinds, kubeconfig, test, turn).await;
        let applied = this.objects.iter().map(|object| apply(&this.client, object));
        futures::future::join_all(applied).await;
        this
    }

    /// On a control plane of the test's own, where Helm installs the chart: nothing is put there. Its webhooks reach every namespace but this one.
    pub(super) async fn of_helm(system: &str, kubeconfig: &Path, test: &str) -> Self {
        let client = Client::try_from(config(kubeconfig).await).unwrap();
        let system = namespace::adopted(&client, system);
        Self::around(system, client, Kinds::All, kubeconfig, test, None).await
    }

    async fn around(
        system: FreshNamespace,
        client: Client,
        kinds: Kinds,
        kubeconfig: &Path,
        test: &str,
        turn: Option<MutexGuard<'static, ()>>,
    ) -> Self {
        let reached = (REACHED, system.name());
        let work = namespace::fresh_labelled(&client, test, &[reached]).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self {
            kubeconfig: as_service_account(kubeconfig, system.name(), directory.path()),
            objects: rendered(system.name(), kinds),
            client,
            system,
            work,
            directory,
            _turn: turn,
        }
    }

    /// One more namespace that webhooks reach.
    pub(super) async fn reached(&self, test: &str) -> FreshNamespace {
        let reached = (REACHED, self.system.name());
        namespace::fresh_labelled(&self.client, test, &[reached]).await.unwrap()
    }

    pub(super) fn start(&self, faults: &Faults) -> Replica {
        self.start_with(faults, &[])
    }

    /// With more flags than all have.
    pub(super) fn start_with(&self, faults: &Faults, more: &[&str]) -> Replica {
        static REPLICAS: AtomicU32 = AtomicU32::new(0);
        let name = format!("replica-{}", REPLICAS.fetch_add(1, Ordering::Relaxed));
        let [metrics, health, debug, webhooks] = free_ports();
        let folder = self.directory.path().join(&name);
        let args = [
            format!("--metrics-addr=127.0.0.1:{metrics}"),
            format!("--health-probe-addr=127.0.0.1:{health}"),
            format!("--pprof-addr=127.0.0.1:{debug}"),
            format!("--protection-log-path={}", folder.display()),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--leader-election-namespace={}", self.system.name()),
            "--leader-election-lease-duration=6s".to_owned(),
            "--leader-election-renew-deadline=4s".to_owned(),
            "--leader-election-retry-period=500ms".to_owned(),
        ];
        let more = more.iter().map(|flag| (*flag).to_owned());
        let flags = parse(["manager".to_owned()].into_iter().chain(args).chain(more)).unwrap();
        let port = webhooks.to_string();
        let certs = folder.join("certs").display().to_string();
        let settings = Settings::read(flags, |name| match name {
            "POD_NAMESPACE" | "KRUISE_DAEMON_CONFIG_NS" => Some(self.system.name().to_owned()),
            "WEBHOOK_PORT" => Some(port.clone()),
            "WEBHOOK_CERT_DIR" => Some(certs.clone()),
            _ => None,
        });
        let stop = CancellationToken::new();
        let (token, dialled) = (stop.clone(), faults.clone());
        let settings = settings.unwrap();
        let task = tokio::spawn(run_through(settings, token, move |config, _| {
            Ok(dialled.client_of(config))
        }));
        Replica {
            name,
            metrics,
            health,
            debug,
            webhooks,
            stop,
            task,
        }
    }

    /// Starts a replica, and waits until it is ready and called by the API server.
    pub(super) async fn ready(&self, faults: &Faults) -> Replica {
        let replica = self.start(faults);
        self.publish(&replica).await;
        replica
    }

    /// Waits until a replica is ready, and does what Kubernetes does then: leads calls to it.
    pub(super) async fn publish(&self, replica: &Replica) {
        replica.becomes_ready().await;
        service::publish(&self.system, SERVICE, &replica.name, replica.webhooks)
            .await
            .unwrap();
        eventually(PATIENCE, "calls arrive", || async {
            self.try_pod().await?;
            Ok(())
        })
        .await;
    }

    /// Takes a replica out of the way of calls.
    pub(super) async fn unpublish(&self, replica: &str) {
        service::unpublish(&self.system, SERVICE, replica).await.unwrap();
    }

    /// Stops a replica as the kubelet does. It has to end well.
    pub(super) async fn stop(&self, replica: Replica) {
        self.unpublish(&replica.name).await;
        replica.stop.cancel();
        replica.task.await.unwrap().unwrap();
    }

    /// A Pod where webhooks do not reach, with the readiness gate that they would have given it.
    pub(super) async fn gated_pod(&self, name: &str) {
        let pod = pod(name).image("nginx:1.25").readiness_gate("KruisePodReady");
        let pods: Api<Pod> = self.system.api();
        pods.create(&PostParams::default(), &pod.build()).await.unwrap();
    }

    /// The status of each condition `KruisePodReady` of a Pod.
    pub(super) async fn pod_ready(&self, name: &str) -> kube::Result<Vec<String>> {
        let pods: Api<Pod> = self.system.api();
        let status = pods.get(name).await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        let ours = conditions.filter(|condition| condition.type_ == "KruisePodReady");
        Ok(ours.map(|condition| condition.status).collect())
    }

    /// Waits until a Pod has the condition, once.
    pub(super) async fn gets_condition(&self, name: &str) {
        eventually(PATIENCE, "the Pod has its condition", || async {
            let found = self.pod_ready(name).await?;
            (found == ["True"])
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found:?}")))
        })
        .await;
    }

    /// Asks the API server to create a Pod of one of our workloads as a dry run, which it asks us about.
    pub(super) async fn try_pod(&self) -> kube::Result<Pod> {
        let web = cloneset("web").uid("0").json();
        let pod = pod("a").image("nginx:1.25").owned_by(&web);
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.work.api::<Pod>().create(&params, &pod.build()).await
    }

    /// Objects of a kind of ours where webhooks reach, in one version.
    pub(super) fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, kind));
        Api::namespaced_with(self.client.clone(), self.work.name(), &resource)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        self.system.api()
    }

    /// Waits until everybody trusts the CA that the Secret has now.
    pub(super) async fn all_trust(&self) {
        eventually(PATIENCE, "the CA is everywhere", || async {
            let secret = self.secrets().get(CERTS).await?;
            let data = json!(secret.data);
            let ca = &data["ca-cert.pem"];
            if !ca.is_string() {
                return Err(NotYet::new("there is no CA"));
            }
            for object in self.objects.iter().filter(|object| carries_ca(object)) {
                let live = api(&self.client, object).get(&name(object)).await?.data;
                let entries = live["webhooks"].as_array().cloned().unwrap_or_default();
                let mut configs: Vec<Value> = entries.into_iter().map(|entry| entry["clientConfig"].clone()).collect();
                let conversion = &live["spec"]["conversion"];
                if conversion["strategy"] == "Webhook" {
                    configs.push(conversion["webhook"]["clientConfig"].clone());
                }
                if let Some(other) = configs.iter().find(|config| config["caBundle"] != *ca) {
                    return Err(NotYet::new(format!("{}: {other}", name(object))));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Lets a successor make everything anew: certificates and lease are gone.
    pub(super) async fn forget(&self) {
        let now = DeleteParams::default();
        let _ = self.secrets().delete(CERTS, &now).await;
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> = self.system.api();
        let _ = leases.delete("kruise-manager", &now).await;
    }

    /// Who holds the lease.
    pub(super) async fn holder(&self) -> Option<String> {
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> = self.system.api();
        let lease = leases.get_opt("kruise-manager").await.unwrap()?;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }
}

impl Drop for World {
    /// Takes away what belongs to the whole cluster; a dead webhook would stand in everybody's way.
    fn drop(&mut self) {
        let (client, objects) = (self.client.clone(), std::mem::take(&mut self.objects));
        let clean_up = async move {
            let of_cluster = objects
                .iter()
                .filter(|object| object["metadata"]["namespace"].is_null());
            let removals = of_cluster.map(|object| async {
                let api = api(&client, object);
                if object["kind"] == "CustomResourceDefinition" {
                    let no_webhook = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
                    let _ = api
                        .patch(&name(object), &PatchParams::default(), &Patch::Merge(&no_webhook))
                        .await;
                }
                let _ = api.delete(&name(object), &DeleteParams::default()).await;
            });
            futures::future::join_all(removals).await;
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(clean_up));
    }
}

/// A running manager.
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) metrics: u16,
    health: u16,
    debug: u16,
    webhooks: u16,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    pub(super) async fn becomes_ready(&self) {
        eventually(PATIENCE, "it is ready", || async {
            match get(self.health, "/readyz").await {
                Some((200, _)) => Ok(()),
                other => Err(NotYet::new(format!("{other:?}"))),
            }
        })
        .await;
    }

    /// Waits until it leads.
    pub(super) async fn leads(&self) {
        eventually(PATIENCE, "it leads", || async {
            (self.is_leader().await == Some(1.0))
                .then_some(())
                .ok_or_else(|| NotYet::new("it does not"))
        })
        .await;
    }

    pub(super) async fn is_leader(&self) -> Option<f64> {
        self.metric("kruise_manager_is_leader").await
    }

    pub(super) async fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = get(self.metrics, "/metrics").await?;
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values.next()
    }

    /// The sum of a metric over its labels.
    pub(super) async fn sum(&self, name: &str) -> Option<f64> {
        let (_, text) = get(self.metrics, "/metrics").await?;
        let labelled = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let values = labelled.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Some(values.sum())
    }

    /// What it would do with an object.
    pub(super) async fn plan(&self, path: &str) -> Option<(u16, String)> {
        get(self.debug, &format!("/debug/plan/{path}")).await
    }

    /// Ends it like a machine that loses power: its world has ended, see [`Faults::crash`]; here only its tasks are cleared away.
    pub(super) async fn clear_away(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Status and body of a GET; nothing when nobody answers.
async fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let mut request = String::new();
    let _ = write!(
        request,
        "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// A port that is free now.
pub(super) fn free_port() -> u16 {
    let [port, ..] = free_ports();
    port
}

/// Ports that are free now. They are asked for together, so that no two are the same.
fn free_ports() -> [u16; 4] {
    let held = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
