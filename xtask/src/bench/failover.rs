//! **failover**: the leader goes in the middle of a rollout; the other manager finishes it.
//!
//! The webhooks are not asked here: out of a cluster there is no Service that would find the manager that is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use kruise_testkit::watch;
use kube::ResourceExt;
use kube::api::ListParams;
use tokio::time::timeout;

use super::Size;
use super::arena::{Arena, Contender};
use super::bare;
use super::manager::{Manager, Webhooks};
use super::platform;
use super::score::{Chapter, Goal};
use super::workload::{ALL_IN_PLACE, Rollout, Workload, image};

const NAMESPACE: &str = "failover";
/// A rollout that takes long enough to be interrupted.
const SLOW: Rollout = Rollout {
    max_unavailable: "5%",
    ..ALL_IN_PLACE
};

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    platform::nobody_asks_webhooks(&arena.kubeconfig)?;
    let nodes = arena.nodes_for(size.failover_pods).await?;
    arena.namespace(NAMESPACE).await?;
    let mut leader = member(arena, contender)?;
    let mut first = None;
    leader.until("leading", || {
        first = platform::holder(&arena.kubeconfig);
        first.is_some()
    })?;
    let workload = Workload::new(&arena.client, NAMESPACE, 1).await?;
    arena.guard(&leader, workload.scale_out(size.failover_pods)).await?;
    let before = names(&workload).await?;
    for ((what, polite, goal), version) in [("kill -9", false, 17.0), ("SIGTERM", true, 2.0)].into_iter().zip(2..) {
        let standby = member(arena, contender)?;
        let begin = Instant::now();
        workload.roll(SLOW, version).await?;
        let third = size.failover_pods / 3;
        let image = image(version);
        let some = async {
            let mut changed = changes(&workload, &image);
            for _ in 0..third {
                changed.next().await.context("the watch has ended")??;
            }
            anyhow::Ok(changed)
        };
        let mut changed = arena.guard(&leader, some).await?;
        let gone = Instant::now();
        if polite {
            leader.terminate()?;
        } else {
            leader.kill()?;
        }
        // What the leader wrote last may still be on its way to us.
        let mut last = gone;
        let mut gap = Duration::ZERO;
        let rest = async {
            let mut open = size.failover_pods - third;
            while open > 0 {
                changed.next().await.context("the watch has ended")??;
                gap = gap.max(last.elapsed());
                last = Instant::now();
                open -= 1;
            }
            anyhow::Ok(())
        };
        arena.guard(&standby, rest).await?;
        let end = arena
            .guard(&standby, workload.rolled(size.failover_pods, version))
            .await?;
        let mut note = |measure: &str, value: Duration, goal: Option<f64>| {
            let measure = format!("{what}: {measure}");
            chapter.note(
                contender.subject,
                measure,
                value.as_secs_f64(),
                "s",
                goal.map(Goal::AtMost),
            );
        };
        note("longest gap between writes", gap, Some(goal));
        note("whole rollout", end - begin, None);
        leader = standby;
    }
    if names(&workload).await? != before {
        bail!("the rollouts in place have replaced Pods");
    }
    nodes.stop().await
}

/// One of several managers.
fn member(arena: &Arena, contender: &Contender) -> Result<Manager> {
    let mut manager = Manager::start(
        &contender.program,
        &arena.kubeconfig,
        Webhooks::Service,
        contender.flags(),
    )?;
    manager.ready()?;
    Ok(manager)
}

async fn names(workload: &Workload) -> Result<BTreeSet<String>> {
    let pods = timeout(
        Duration::from_secs(30),
        workload.pods.list_metadata(&ListParams::default()),
    )
    .await??;
    Ok(pods.items.iter().filter_map(ResourceExt::uid).collect())
}

/// An item for every Pod whose spec has got an image.
fn changes(workload: &Workload, image: &str) -> impl futures::Stream<Item = Result<()>> + Unpin {
    let image = image.to_owned();
    let mut seen = BTreeSet::new();
    watch::applied(workload.pods.clone())
        .map_err(anyhow::Error::from)
        .try_filter_map(move |pod| {
            let new = bare::is_to_run(&pod, &image) && seen.insert(pod.name_any());
            std::future::ready(Ok(new.then_some(())))
        })
        .boxed()
}
