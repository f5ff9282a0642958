//! **sidecarset**: a sidecar gets another image in many Pods all at once, beside a client that only writes; what many sets and Pods take in memory; and how long the
//! planner thinks.
//!
//! Nobody who is measured made the Pods, so that all that is spent is spent on sidecars. The bare client makes the same two writes for each Pod.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::time::sleep;

use super::Size;
use super::arena::{Arena, Contender, Spent};
use super::bare::{self, Bare};
use super::injection::{Sets, sidecar, sidecar_image};
use super::manager::Manager;
use super::planning;
use super::platform::{self, MEGABYTE};
use super::score::{Chapter, Goal, Subject};
use super::start::Crowd;

const NAMESPACE: &str = "sidecarset";
/// Pods that the planner thinks about.
const PLANNED: usize = 5000;

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    arena.namespace(NAMESPACE).await?;
    let work = upgrade(arena, contender, &manager, size, chapter);
    arena.guard(&manager, work).await?;
    if contender.subject == Subject::Bare {
        return Ok(());
    }
    let sets = Sets::new(&arena.client, NAMESPACE);
    let mut crowd = Crowd::new(arena, size.injected_pods).await?;
    let fill = async {
        // One is for all the Pods.
        sets.create(size.injecting_sets, |number| match number {
            0 => bare::APP.to_owned(),
            other => format!("other-{other}"),
        })
        .await?;
        sets.are_known(bare::APP, 1).await?;
        crowd.grow(size.injected_pods).await
    };
    arena.guard(&manager, fill).await?;
    drop(manager);
    platform::free_lease(&arena.kubeconfig);
    let manager = arena.manager(contender)?;
    sleep(size.settle).await;
    let measure = format!("{} sets, {} Pods: memory", size.injecting_sets, size.injected_pods);
    let memory = manager.memory()? / MEGABYTE;
    chapter.note(contender.subject, measure, memory, "MB", Some(Goal::AtMost(45.0)));
    crowd.leave().await
}

async fn upgrade(
    arena: &Arena,
    contender: &Contender,
    manager: &Manager,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    let pods = size.sidecar_pods;
    let nodes = arena.nodes_for(pods).await?;
    let sets = Sets::new(&arena.client, NAMESPACE);
    let names = sets.create(1, |_| bare::APP.to_owned()).await?;
    let set = names.first().context("no set was made")?;
    sets.are_known(bare::APP, 1).await?;
    let bare = Bare::new(&arena.client, NAMESPACE, pods).await?;
    bare.create().await?;
    sleep(size.settle).await;
    let (container, image) = (format!("side-{set}"), sidecar_image(2));
    let time = if contender.subject == Subject::Bare {
        sets.patch(set, json!({"updateStrategy": {"type": "NotUpdate"}}))
            .await?;
        bare.upgrade(&container, &image).await?
    } else {
        let before = Spent::so_far(manager)?;
        let begin = Instant::now();
        let upgraded = bare.until_all(|pod| bare::is_ready(pod) && bare::runs_in(pod, &container, &image));
        let change = sets.patch(set, json!({"containers": [sidecar(set, 2)]}));
        tokio::try_join!(upgraded, change)?;
        let time = begin.elapsed();
        // Conditions of the last Pods are written afterwards.
        sleep(size.settle).await;
        let writes = Spent::since(manager, before)?.writes_per_pod(pods);
        let measure = "in place, all at once: writes per Pod";
        chapter.note(contender.subject, measure, writes, "", Some(Goal::AtMost(3.0)));
        time
    };
    let measure = "in place, all at once";
    chapter.note(contender.subject, measure, time.as_secs_f64(), "s", None);
    bare.delete().await?;
    sets.delete(&names).await?;
    nodes.stop().await
}

/// What needs no cluster.
pub(super) fn plan(chapter: &mut Chapter) -> Result<()> {
    planning::time("plan_time_sidecarset", PLANNED, chapter)
}
