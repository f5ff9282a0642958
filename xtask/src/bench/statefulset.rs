//! **statefulset**: one parallel StatefulSet from nothing to many Pods, updated in place all at once, and back to nothing; and how long its planner thinks.

use std::time::Instant;

use anyhow::Result;

use super::Size;
use super::arena::{Arena, Contender, Spent};
use super::bare::Bare;
use super::planning;
use super::score::{Chapter, Goal, Subject};
use super::workload::{ALL_IN_PLACE, Kind, Workload, image};

const NAMESPACE: &str = "statefulset";
/// Ordinals with claims that the planner thinks about.
const ORDINALS: usize = 2000;

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let pods = size.workload_pods;
    let work = async {
        let nodes = arena.nodes_for(pods).await?;
        arena.namespace(NAMESPACE).await?;
        let mut time = |what: &str, seconds: f64| chapter.note(contender.subject, what, seconds, "s", None);
        if contender.subject == Subject::Bare {
            let bare = Bare::new(&arena.client, NAMESPACE, pods).await?;
            time("ready", bare.create().await?.1.as_secs_f64());
            time("in place, all at once", bare.update(&image(2)).await?.as_secs_f64());
            time("to nothing", bare.delete().await?.as_secs_f64());
            return nodes.stop().await;
        }
        let workload = Workload::of(Kind::Stateful, &arena.client, NAMESPACE, 1).await?;
        let mut before = Spent::so_far(&manager)?;
        let mut writes = Vec::new();
        let mut spent = |what: &'static str, goal: f64| -> Result<()> {
            writes.push((what, Spent::since(&manager, before)?.writes_per_pod(pods), goal));
            before = Spent::so_far(&manager)?;
            Ok(())
        };
        time("ready", workload.scale_out(pods).await?.1.as_secs_f64());
        spent("ready", 2.3)?;
        let begin = Instant::now();
        workload.roll(ALL_IN_PLACE, 2).await?;
        let end = workload.rolled(pods, 2).await?;
        time("in place, all at once", (end - begin).as_secs_f64());
        spent("in place, all at once", 3.3)?;
        time("to nothing", workload.scale_in().await?.as_secs_f64());
        spent("to nothing", 1.3)?;
        for (what, value, goal) in writes {
            let measure = format!("{what}: writes per Pod");
            chapter.note(contender.subject, measure, value, "", Some(Goal::AtMost(goal)));
        }
        nodes.stop().await
    };
    arena.guard(&manager, work).await
}

/// What needs no cluster.
pub(super) fn plan(chapter: &mut Chapter) -> Result<()> {
    planning::time("plan_time_statefulset", ORDINALS, chapter)
}
