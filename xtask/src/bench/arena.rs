//! A fresh control plane for one measurement, with what the chart installs; and the manager that is measured on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kruise_testkit::cluster::TestControlPlane;
use kruise_testkit::progress::Progress;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::manager::{Manager, Webhooks};
use super::score::Subject;
use super::{as_number, platform};

/// How many Pods share a simulated node.
pub(super) const PODS_PER_NODE: usize = 200;

/// The client limits that let a peer go as fast as it can.
const RAISED: [&str; 2] = ["--rest-config-qps=5000", "--rest-config-burst=10000"];

/// A manager that takes part.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) subject: Subject,
    /// The bare client has ours beside it, which answers the webhooks and has nothing else to do.
    pub(super) program: PathBuf,
}

impl Contender {
    pub(super) fn flags(&self) -> &'static [&'static str] {
        match self.subject {
            Subject::Peer => &RAISED,
            Subject::Ours | Subject::PeerByDefault | Subject::Bare => &[],
        }
    }
}

pub(super) struct Arena {
    pub(super) kubeconfig: PathBuf,
    pub(super) client: Client,
    _control_plane: TestControlPlane,
}

impl Arena {
    pub(super) async fn new(progress: &Progress) -> Result<Self> {
        let control_plane = TestControlPlane::start(progress)?;
        let kubeconfig = control_plane.kubeconfig();
        progress.step("Installing CRDs and webhook configurations", |_| {
            platform::install(&kubeconfig)
        })?;
        Ok(Self {
            client: client(&kubeconfig).await?,
            kubeconfig,
            _control_plane: control_plane,
        })
    }

    /// Starts a contender; returns when it is ready.
    pub(super) fn manager(&self, contender: &Contender) -> Result<Manager> {
        self.manager_with(contender, &[])
    }

    /// The same, with more flags.
    pub(super) fn manager_with(&self, contender: &Contender, flags: &[&str]) -> Result<Manager> {
        let flags = [contender.flags(), flags].concat();
        let mut manager = Manager::start(&contender.program, &self.kubeconfig, Webhooks::Address, &flags)?;
        manager
            .ready()
            .with_context(|| format!("{} does not start", contender.subject.name()))?;
        Ok(manager)
    }

    /// Simulated nodes with room for so many Pods.
    pub(super) async fn nodes_for(&self, pods: usize) -> Result<SimulatedNodes> {
        let options = SimOptions {
            count: pods.div_ceil(PODS_PER_NODE).max(1),
            ..SimOptions::default()
        };
        SimulatedNodes::start(self.client.clone(), options).await
    }

    /// A namespace in which Pods can be created.
    pub(super) async fn namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), name);
        let account = async {
            while accounts.get_opt("default").await?.is_none() {
                sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        timeout(Duration::from_mins(1), account)
            .await
            .with_context(|| format!("no service account in {name}"))?
    }

    /// Does the work, unless the API server or the manager is gone before: then nothing was measured.
    pub(super) async fn guard<T>(&self, manager: &Manager, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            why = self.broken(manager) => bail!("{why}"),
        }
    }

    /// Waits until the API server or the manager does not live any more; returns what happened.
    async fn broken(&self, manager: &Manager) -> String {
        let mut silent = 0;
        while silent < 3 {
            sleep(Duration::from_secs(2)).await;
            if let Some(words) = manager.last_words_if_ended() {
                return format!("the manager has ended in the middle of the work:\n{words}");
            }
            let answer = timeout(Duration::from_secs(10), self.client.apiserver_version()).await;
            silent = if matches!(answer, Ok(Ok(_))) { 0 } else { silent + 1 };
        }
        "the API server does not answer any more".to_owned()
    }
}

pub(super) async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// What a manager has spent between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    writes: f64,
    requests: f64,
    cpu: Duration,
}

impl Spent {
    pub(super) fn so_far(manager: &Manager) -> Result<Self> {
        Ok(Self {
            writes: manager.writes()?,
            requests: manager.requests()?,
            cpu: manager.cpu()?,
        })
    }

    pub(super) fn since(manager: &Manager, before: Self) -> Result<Self> {
        let now = Self::so_far(manager)?;
        Ok(Self {
            writes: now.writes - before.writes,
            requests: now.requests - before.requests,
            cpu: now.cpu.saturating_sub(before.cpu),
        })
    }

    pub(super) fn writes(&self) -> f64 {
        self.writes
    }

    pub(super) fn requests(&self) -> f64 {
        self.requests
    }

    pub(super) fn cpu(&self) -> f64 {
        self.cpu.as_secs_f64()
    }

    pub(super) fn writes_per_pod(&self, pods: usize) -> f64 {
        self.writes / as_number(pods)
    }

    pub(super) fn cpu_per_thousand(&self, pods: usize) -> f64 {
        self.cpu() * 1000.0 / as_number(pods)
    }
}
