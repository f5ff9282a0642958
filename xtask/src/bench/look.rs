//! **look**: people who look at 10,000 Pods in 200 sets: 50 readers of the live page while Pods change, and scrapes of the state metrics.
//!
//! Half of the readers see the list of all workloads, the others each the page of one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::arena::{Arena, Contender, Spent};
use super::churn::change_to;
use super::platform::MEGABYTE;
use super::score::{Chapter, Goal, Subject};
use super::workload::Workload;
use super::{Size, as_number};
use crate::loopback::{free_ports, get};

const READERS: usize = 50;
const SCRAPES: usize = 20;
/// What a page may take to be there as a whole.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    // The peer has neither.
    if contender.subject != Subject::Ours {
        return Ok(());
    }
    let [page, state] = free_ports()?;
    let flags = [
        format!("--ui-addr=127.0.0.1:{page}"),
        format!("--state-metrics-addr=127.0.0.1:{state}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let manager = arena.manager_with(contender, &flags)?;
    let work = async {
        let nodes = arena.nodes_for(size.idle_sets * size.replicas).await?;
        arena.namespace("look").await?;
        let workload = Workload::new(&arena.client, "look", size.idle_sets).await?;
        workload.scale_out(size.replicas).await?;
        sleep(size.settle).await;
        let mut note = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
            chapter.note(contender.subject, what, value, unit, goal.map(Goal::AtMost));
        };
        let time = size.churn / 5;
        // The first round is for what every round leaves behind.
        flip(&workload, time).await?;
        let share = async || {
            let before = Spent::so_far(&manager)?;
            flip(&workload, time).await?;
            anyhow::Ok(Spent::since(&manager, before)?.cpu() / time.as_secs_f64() * 100.0)
        };
        let alone = share().await?;
        let memory = manager.memory()?;
        let token = token(arena).await?;
        let (mut readers, read) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for number in 0..READERS {
            let path = if number % 2 == 0 {
                "/api/tables/workloads".to_owned()
            } else {
                format!(
                    "/api/workload?kind=CloneSet&namespace=look&name=set-{}",
                    number % size.idle_sets
                )
            };
            let mut reader = Reader::open(page, &path, &token).await?;
            let read = read.clone();
            readers.spawn(async move { reader.read_on(&read).await });
        }
        let before = read.load(Ordering::Relaxed);
        let watched = share().await?;
        let read = as_number(read.load(Ordering::Relaxed) - before);
        note("read by 50 readers", read / MEGABYTE / time.as_secs_f64(), "MB/s", None);
        note("CPU, nobody looks", alone, "% of a core", None);
        note(
            "CPU, 50 readers: more",
            (watched - alone).max(0.0),
            "% of a core",
            Some(10.0),
        );
        let more = (manager.memory()? - memory).max(0.0) / MEGABYTE;
        note("memory, 50 readers: more", more, "MB", Some(10.0));
        if let Some(ended) = readers.try_join_next() {
            bail!("a reader was sent away: {ended:?}");
        }
        readers.shutdown().await;

        let url = format!("http://127.0.0.1:{state}/metrics");
        get(&url).context("no state metrics")?;
        sleep(size.settle).await;
        let (memory, before) = (manager.memory()?, Spent::so_far(&manager)?);
        let mut length = 0;
        let begin = Instant::now();
        for _ in 0..SCRAPES {
            length = get(&url).context("no state metrics")?.len();
        }
        let each = Spent::since(&manager, before)?.cpu() * 1000.0 / as_number(SCRAPES);
        note("scrape: CPU", each, "ms", Some(20.0));
        note(
            "scrape: time",
            begin.elapsed().as_secs_f64() * 1000.0 / as_number(SCRAPES),
            "ms",
            None,
        );
        note("scrape: page", as_number(length) / MEGABYTE, "MB", None);
        let more = (manager.memory()? - memory).max(0.0) / MEGABYTE;
        note("scrape: memory", more, "MB", Some(2.0));
        nodes.stop().await
    };
    arena.guard(&manager, work).await
}

/// Pods become not ready and ready again, one after the other, which is seen on both pages.
async fn flip(workload: &Workload, time: Duration) -> Result<usize> {
    change_to(workload, time, |number| {
        let status = if number.is_multiple_of(2) { "False" } else { "True" };
        (number / 2, json!({"type": "Ready", "status": status}))
    })
    .await
}

/// A token of somebody who may see all.
async fn token(arena: &Arena) -> Result<String> {
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(arena.client.clone(), "look");
    let account = serde_json::from_value(json!({"metadata": {"name": "reader"}}))?;
    accounts.create(&params, &account).await?;
    let binding = json!({"metadata": {"name": "look"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "look"}]});
    let bindings: Api<ClusterRoleBinding> = Api::all(arena.client.clone());
    bindings.create(&params, &serde_json::from_value(binding)?).await?;
    let made = accounts
        .create_token_request("reader", &params, &TokenRequest::default())
        .await?;
    made.status.and_then(|status| status.token).context("no token")
}

/// Somebody who has the page open.
struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Reader {
    /// Returns when all that there is now is shown.
    async fn open(port: u16, path: &str, token: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reader = Self {
            stream,
            buffer: vec![0; 64 * 1024],
        };
        let mut seen = String::new();
        let beginning = async {
            while !seen.contains("event: whole") {
                let length = reader.stream.read(&mut reader.buffer).await?;
                if length == 0 {
                    bail!("the page ended: {seen}");
                }
                seen.push_str(&String::from_utf8_lossy(&reader.buffer[..length]));
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, beginning)
            .await
            .context("the page is not shown in time")??;
        Ok(reader)
    }

    /// Reads until the page ends, and counts how much it is.
    async fn read_on(&mut self, read: &AtomicUsize) -> Result<()> {
        loop {
            let length = self.stream.read(&mut self.buffer).await?;
            if length == 0 {
                return Ok(());
            }
            read.fetch_add(length, Ordering::Relaxed);
        }
    }
}
