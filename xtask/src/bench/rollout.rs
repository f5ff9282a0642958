//! **rollout**: a new image for many Pods, in place and by new Pods, as fast as possible and within a tenth.

use std::time::Instant;

use anyhow::Result;

use super::Size;
use super::arena::{Arena, Contender, Spent};
use super::bare::Bare;
use super::score::{Chapter, Goal, Subject};
use super::workload::{ALL_IN_PLACE, Rollout, Workload, image};

const NAMESPACE: &str = "rollout";

/// Three, and some for the set itself.
const WRITES_PER_POD: Goal = Goal::AtMost(3.3);

const ROLLOUTS: [(&str, Rollout); 4] = [
    ("in place, all at once", ALL_IN_PLACE),
    (
        "in place, a tenth at once",
        Rollout {
            policy: "InPlaceIfPossible",
            max_unavailable: "10%",
        },
    ),
    (
        "new Pods, all at once",
        Rollout {
            policy: "ReCreate",
            max_unavailable: "100%",
        },
    ),
    (
        "new Pods, a tenth at once",
        Rollout {
            policy: "ReCreate",
            max_unavailable: "10%",
        },
    ),
];

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let work = async {
        let nodes = arena.nodes_for(size.pods).await?;
        arena.namespace(NAMESPACE).await?;
        if contender.subject == Subject::Bare {
            bare(arena, size, chapter).await?;
            return nodes.stop().await;
        }
        let workload = Workload::new(&arena.client, NAMESPACE, 1).await?;
        workload.scale_out(size.pods).await?;
        let rollouts = ROLLOUTS.iter().take(if size.quick { 1 } else { ROLLOUTS.len() });
        for ((what, rollout), version) in rollouts.zip(2..) {
            let before = Spent::so_far(&manager)?;
            let begin = Instant::now();
            workload.roll(*rollout, version).await?;
            let end = workload.rolled(size.pods, version).await?;
            let spent = Spent::since(&manager, before)?;
            let mut note = |measure: &str, value: f64, unit: &str, goal: Option<Goal>| {
                chapter.note(contender.subject, format!("{what}{measure}"), value, unit, goal);
            };
            note("", (end - begin).as_secs_f64(), "s", None);
            // A Pod that is replaced has one more: it is marked before it is deleted.
            let goal = Some(WRITES_PER_POD).filter(|_| rollout.policy.starts_with("InPlace"));
            note(": writes per Pod", spent.writes_per_pod(size.pods), "", goal);
            note(": CPU per 1,000 Pods", spent.cpu_per_thousand(size.pods), "s", None);
        }
        nodes.stop().await
    };
    arena.guard(&manager, work).await
}

/// What the same takes without deciding anything.
async fn bare(arena: &Arena, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let mut note = |what: &str, seconds: f64| chapter.note(Subject::Bare, what, seconds, "s", None);
    let old = Bare::new(&arena.client, NAMESPACE, size.pods).await?;
    old.create().await?;
    let updated = old.update(&image(2)).await?;
    note(ROLLOUTS[0].0, updated.as_secs_f64());
    if !size.quick {
        let new = old.others();
        let begin = Instant::now();
        tokio::try_join!(old.delete_all(), new.create())?;
        note(ROLLOUTS[2].0, begin.elapsed().as_secs_f64());
    }
    Ok(())
}
