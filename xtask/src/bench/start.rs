//! **start**: from the start of the process to its first work, in clusters of growing size; and the memory it takes there.
//!
//! All contenders start in the same cluster, one after the other: filling it takes longer than all of them.

use std::time::Duration;

use anyhow::{Context, Result};
use kruise_testkit::progress::Progress;
use tokio::time::sleep;

use super::arena::{Arena, Contender};
use super::bare::Bare;
use super::manager::{Manager, Webhooks};
use super::platform::{self, MEGABYTE};
use super::score::{Chapter, Curve, Goal, Plot, Subject};
use super::workload::Workload;
use super::{Size, as_number};

/// After its first work a manager is left alone for so long before its memory counts.
const SETTLE: Duration = Duration::from_secs(15);

pub(super) async fn run(
    arena: &Arena,
    contenders: &[Contender],
    size: &Size,
    chapter: &mut Chapter,
    progress: &Progress,
) -> Result<()> {
    let ours = contenders.first().context("nobody takes part")?;
    let managers = || contenders.iter().filter(|contender| contender.subject != Subject::Bare);
    arena.namespace("start").await?;
    let filling = arena.manager(ours)?;
    // Something to work on.
    Workload::new(&arena.client, "start", 1).await?;
    let mut crowd = Crowd::new(arena, size.largest_population()).await?;
    drop(filling);
    for pods in size.populations {
        if *pods > 0 {
            progress.say(&format!("Filling the cluster to {pods} Pods …"));
            let filling = arena.manager(ours)?;
            arena.guard(&filling, crowd.grow(*pods)).await?;
        }
        for contender in managers() {
            progress.say(&format!("Starting {} among {pods} Pods …", contender.subject.name()));
            one(arena, contender, *pods, chapter).await?;
        }
    }
    for contender in managers() {
        growth(contender.subject, chapter);
    }
    crowd.leave().await
}

async fn one(arena: &Arena, contender: &Contender, pods: usize, chapter: &mut Chapter) -> Result<()> {
    platform::free_lease(&arena.kubeconfig);
    let mut manager = Manager::start(
        &contender.program,
        &arena.kubeconfig,
        Webhooks::Address,
        contender.flags(),
    )?;
    let begin = manager.started;
    let mut note = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
        let measure = format!("{pods} Pods: {what}");
        chapter.note(contender.subject, measure, value, unit, goal.map(Goal::AtMost));
    };
    manager.ready()?;
    note("ready", begin.elapsed().as_secs_f64(), "s", None);
    manager.until("leading", || platform::holder(&arena.kubeconfig).is_some())?;
    note("leads", begin.elapsed().as_secs_f64(), "s", None);
    let port = manager.metrics();
    manager.until("at work", || {
        port.sum("controller_runtime_reconcile_total", |_| true)
            .is_ok_and(|count| count > 0.0)
    })?;
    note("first reconcile", begin.elapsed().as_secs_f64(), "s", None);
    sleep(SETTLE).await;
    let settled = manager.memory()? / MEGABYTE;
    let goal = match pods {
        0 => Some(24.0),
        10_000 => Some(45.0),
        _ => None,
    };
    note("memory, settled", settled, "MB", goal);
    note("memory, peak", manager.peak_memory()? / MEGABYTE, "MB", None);
    curve(chapter, contender.subject)
        .points
        .push((as_number(pods), settled));
    Ok(())
}

fn curve(chapter: &mut Chapter, subject: Subject) -> &mut Curve {
    let place = chapter.curves.iter().position(|curve| curve.subject == subject);
    let place = place.unwrap_or_else(|| {
        chapter.curves.push(Curve {
            plot: Plot::Memory,
            subject,
            label: String::new(),
            points: Vec::new(),
        });
        chapter.curves.len() - 1
    });
    &mut chapter.curves[place]
}

/// What one more Pod takes, from the smallest cluster to the largest.
fn growth(subject: Subject, chapter: &mut Chapter) {
    let points = &curve(chapter, subject).points;
    let (Some((few, small)), Some((many, large))) = (points.first(), points.last()) else {
        return;
    };
    if many > few {
        let each = (large - small) * MEGABYTE / (many - few);
        chapter.note(subject, "memory per Pod", each, "bytes", Some(Goal::AtMost(1229.0)));
    }
}

/// Pods that belong to nobody who is measured, on nodes of their own.
pub(super) struct Crowd<'a> {
    arena: &'a Arena,
    nodes: kruise_testkit::sim::SimulatedNodes,
    /// Times that it has grown: each time in a namespace of its own.
    grown: usize,
    count: usize,
}

impl<'a> Crowd<'a> {
    /// Nodes for so many Pods; no Pod yet.
    pub(super) async fn new(arena: &'a Arena, most: usize) -> Result<Self> {
        Ok(Self {
            arena,
            nodes: arena.nodes_for(most).await?,
            grown: 0,
            count: 0,
        })
    }

    /// Adds Pods until there are so many; returns when all run.
    pub(super) async fn grow(&mut self, count: usize) -> Result<()> {
        let namespace = format!("crowd-{}", self.grown);
        self.arena.namespace(&namespace).await?;
        let more = count.saturating_sub(self.count);
        let part = Bare::on_nodes(&self.arena.client, &namespace, more, &self.nodes.names()).await?;
        part.create_all().await?;
        part.ready().await?;
        self.count = count;
        self.grown += 1;
        Ok(())
    }

    pub(super) async fn leave(self) -> Result<()> {
        self.nodes.stop().await
    }
}
