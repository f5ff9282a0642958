//! **idle**: many Pods and sets, and nothing happens.

use anyhow::Result;
use tokio::time::sleep;

use super::Size;
use super::arena::{Arena, Contender, Spent};
use super::platform::MEGABYTE;
use super::score::{Chapter, Goal};
use super::workload::Workload;

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let work = async {
        let nodes = arena.nodes_for(size.idle_sets * size.replicas).await?;
        arena.namespace("idle").await?;
        let workload = Workload::new(&arena.client, "idle", size.idle_sets).await?;
        workload.scale_out(size.replicas).await?;
        sleep(size.settle).await;
        let before = Spent::so_far(&manager)?;
        sleep(size.idle).await;
        let spent = Spent::since(&manager, before)?;
        let minutes = size.idle.as_secs_f64() / 60.0;
        let mut note = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
            chapter.note(contender.subject, what, value, unit, goal.map(Goal::AtMost));
        };
        let cpu = spent.cpu() / size.idle.as_secs_f64() * 100.0;
        note("CPU", cpu, "% of a core", Some(0.2));
        // The lease alone takes thirty.
        note("writes", spent.writes() / minutes, "per minute", Some(31.0));
        note("requests", spent.requests() / minutes, "per minute", None);
        note("memory", manager.memory()? / MEGABYTE, "MB", Some(40.0));
        nodes.stop().await
    };
    arena.guard(&manager, work).await
}
