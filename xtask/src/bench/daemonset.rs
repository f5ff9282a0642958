//! **daemonset**: one DaemonSet over many nodes, from nothing to a ready Pod on each, and updated in place all at once; and what nodes cost that only say that they
//! are alive.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{interval, sleep};

use super::arena::{Arena, Contender, Spent};
use super::bare::Bare;
use super::manager::Manager;
use super::score::{Chapter, Goal, Subject};
use super::workload::{ALL_IN_PLACE, Kind, Workload, image};
use super::{Size, as_number};

const NAMESPACE: &str = "daemonset";
/// New nodes have their NodeImages before anything is measured.
const SOON: &str = "--nodeimage-creation-delay=1s";
/// How often a node says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 32;
/// How long it is waited for the manager to know all nodes, and how often it is looked.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_secs(5);

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager_with(contender, &[SOON])?;
    let work = async {
        arena.namespace(NAMESPACE).await?;
        let nodes = many(arena, "few", size.workload_pods).await?;
        rollout(arena, contender, &manager, size.workload_pods, chapter).await?;
        nodes.stop().await?;
        if contender.subject == Subject::Bare {
            return Ok(());
        }
        heartbeats(arena, contender, &manager, size, chapter).await
    };
    arena.guard(&manager, work).await
}

async fn many(arena: &Arena, prefix: &str, count: usize) -> Result<SimulatedNodes> {
    let options = SimOptions {
        count,
        name_prefix: prefix.to_owned(),
        ..SimOptions::default()
    };
    SimulatedNodes::start(arena.client.clone(), options).await
}

async fn rollout(
    arena: &Arena,
    contender: &Contender,
    manager: &Manager,
    nodes: usize,
    chapter: &mut Chapter,
) -> Result<()> {
    let mut time = |what: &str, seconds: f64| chapter.note(contender.subject, what, seconds, "s", None);
    if contender.subject == Subject::Bare {
        let bare = Bare::new(&arena.client, NAMESPACE, nodes).await?;
        time("ready", bare.create().await?.1.as_secs_f64());
        time("in place, all at once", bare.update(&image(2)).await?.as_secs_f64());
        bare.delete().await?;
        return Ok(());
    }
    // New nodes bring other writes, which have nothing to do with the set.
    quiet(manager).await?;
    let workload = Workload::of(Kind::Daemon, &arena.client, NAMESPACE, 1).await?;
    let writes = || {
        manager
            .metrics()
            .sum("kruise_writes_total", |labels| labels.contains("resource=\"pods"))
    };
    let before = writes()?;
    time("ready", workload.scale_out(nodes).await?.1.as_secs_f64());
    let ready = writes()?;
    let begin = Instant::now();
    workload.roll(ALL_IN_PLACE, 2).await?;
    let end = workload.rolled(nodes, 2).await?;
    time("in place, all at once", (end - begin).as_secs_f64());
    let updated = writes()?;
    workload.remove().await?;
    for (what, writes, goal) in [
        ("ready", ready - before, 2.3),
        ("in place, all at once", updated - ready, 3.3),
    ] {
        let (measure, value) = (format!("{what}: writes of Pods per Pod"), writes / as_number(nodes));
        chapter.note(contender.subject, measure, value, "", Some(Goal::AtMost(goal)));
    }
    Ok(())
}

/// Nobody wants a Pod on these nodes, but there is a set that has to know of each whether it does.
async fn heartbeats(
    arena: &Arena,
    contender: &Contender,
    manager: &Manager,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    Workload::of(Kind::Daemon, &arena.client, NAMESPACE, 1).await?;
    sleep(size.settle).await;
    let memory = manager.memory()?;
    let nodes = many(arena, "many", size.beating_nodes).await?;
    quiet(manager).await?;
    sleep(size.settle).await;
    let mut note = |what: &str, value: f64, unit: &str, goal: f64| {
        let measure = format!("{} nodes: {what}", size.beating_nodes);
        chapter.note(contender.subject, measure, value, unit, Some(Goal::AtMost(goal)));
    };
    let per_node = (manager.memory()? - memory) / as_number(size.beating_nodes);
    note("memory per node", per_node, "bytes", 1024.0);
    let before = Spent::so_far(manager)?;
    tokio::select! {
        () = sleep(size.beating) => {}
        ended = beat(arena, nodes.names()) => ended?,
    }
    let spent = Spent::since(manager, before)?;
    let seconds = size.beating.as_secs_f64();
    note("CPU", spent.cpu() / seconds * 100.0, "% of a core", 0.5);
    // The lease alone takes thirty.
    note("writes", spent.writes() / seconds * 60.0, "per minute", 31.0);
    nodes.stop().await
}

/// Every node writes its status every ten seconds, for ever, spread over that time.
/// Waits until all new nodes have their NodeImages: then only the lease is written.
async fn quiet(manager: &Manager) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let before = Spent::so_far(manager)?;
        sleep(LOOK).await;
        // The lease alone takes one every two seconds.
        if Spent::since(manager, before)?.writes() < LOOK.as_secs_f64() {
            return Ok(());
        }
    }
    bail!("the manager still writes after {PATIENCE:?}")
}

async fn beat(arena: &Arena, names: Vec<String>) -> Result<()> {
    let nodes: Api<Node> = Api::all(arena.client.clone());
    let mut ticks = interval(Duration::from_secs(1));
    let share = names.len().div_ceil(HEARTBEAT.as_secs() as usize).max(1);
    for names in names.chunks(share).cycle() {
        ticks.tick().await;
        let now = k8s_openapi::jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let alive = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now});
        let alive = &Patch::Strategic(json!({"status": {"conditions": [alive]}}));
        let written = stream::iter(names).map(|name| {
            let nodes = &nodes;
            async move { nodes.patch_status(name, &PatchParams::default(), alive).await }
        });
        let mut written = written.buffer_unordered(AT_ONCE);
        while let Some(written) = written.next().await {
            written?;
        }
    }
    Ok(())
}
