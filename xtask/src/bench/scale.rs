//! **scale**: one CloneSet from nothing to many Pods and back, and many small CloneSets at once.

use anyhow::Result;

use super::arena::{Arena, Contender, Spent};
use super::bare::Bare;
use super::score::{Chapter, Goal, Subject};
use super::workload::Workload;
use super::{Size, as_number};

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let shapes = [("one set", 1, size.pods), ("many sets", size.sets, size.replicas)];
    let most = size.pods.max(size.sets * size.replicas);
    let work = async {
        let nodes = arena.nodes_for(most).await?;
        for (shape, sets, replicas) in shapes {
            let pods = sets * replicas;
            let subject = contender.subject;
            let namespace = format!("scale-{sets}");
            arena.namespace(&namespace).await?;
            let mut time = |what: &str, seconds: f64| {
                chapter.note(subject, format!("{shape}: {what}"), seconds, "s", None);
                as_number(pods) / seconds
            };
            let rate = if subject == Subject::Bare {
                let bare = Bare::new(&arena.client, &namespace, pods).await?;
                let (created, ready) = bare.create().await?;
                time("created", created.as_secs_f64());
                let rate = time("ready", ready.as_secs_f64());
                time("to nothing", bare.delete().await?.as_secs_f64());
                rate
            } else {
                let workload = Workload::new(&arena.client, &namespace, sets).await?;
                let before = Spent::so_far(&manager)?;
                let (created, ready) = workload.scale_out(replicas).await?;
                let out = Spent::since(&manager, before)?;
                time("created", created.as_secs_f64());
                let rate = time("ready", ready.as_secs_f64());
                let before = Spent::so_far(&manager)?;
                time("to nothing", workload.scale_in().await?.as_secs_f64());
                let back = Spent::since(&manager, before)?;
                let mut note = |what: &str, value: f64, unit: &str, goal: Option<Goal>| {
                    chapter.note(subject, format!("{shape}: {what}"), value, unit, goal);
                };
                note(
                    "writes per Pod, out",
                    out.writes_per_pod(pods),
                    "",
                    Some(Goal::AtMost(2.3)),
                );
                note(
                    "writes per Pod, in",
                    back.writes_per_pod(pods),
                    "",
                    Some(Goal::AtMost(1.3)),
                );
                note("CPU per 1,000 Pods, out", out.cpu_per_thousand(pods), "s", None);
                note("CPU per 1,000 Pods, in", back.cpu_per_thousand(pods), "s", None);
                rate
            };
            chapter.note(subject, format!("{shape}: ready Pods per second"), rate, "/s", None);
        }
        nodes.stop().await
    };
    arena.guard(&manager, work).await
}
