//! **churn**: Pods whose status changes all the time, first in a small cluster, then among many Pods that stay as they are.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};

use super::arena::{Arena, Contender, Spent};
use super::platform::MEGABYTE;
use super::score::{Chapter, Goal};
use super::start::Crowd;
use super::workload::Workload;
use super::{Size, as_number};

/// Status changes per second.
const RATE: u32 = 50;

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let work = async {
        let mut note = |what: String, value: f64, unit: &str, goal: Option<f64>| {
            chapter.note(contender.subject, what, value, unit, goal.map(Goal::AtMost));
        };
        let mut crowd = Crowd::new(arena, size.largest_population()).await?;
        arena.namespace("churn").await?;
        let sets = size.churned.div_ceil(size.replicas);
        let workload = Workload::new(&arena.client, "churn", sets).await?;
        workload.scale_out(size.replicas).await?;
        let alone = sets * size.replicas;
        let most = size.largest_population();
        let mut per_event = Vec::new();
        for (population, time) in [(alone, size.churn), (most, size.churn / 5)] {
            if population > alone {
                crowd.grow(population - alone).await?;
            }
            sleep(size.settle).await;
            let memory = manager.memory()?;
            let before = Spent::so_far(&manager)?;
            let events = change(&workload, time).await?;
            let spent = Spent::since(&manager, before)?;
            let each = spent.cpu() * 1000.0 / as_number(events);
            per_event.push(each);
            note(format!("{population} Pods: CPU per change"), each, "ms", None);
            let share = spent.cpu() / time.as_secs_f64() * 100.0;
            note(format!("{population} Pods: CPU"), share, "% of a core", None);
            let growth = (manager.memory()? - memory) / MEGABYTE;
            note(format!("{population} Pods: memory growth"), growth, "MB", None);
            note(format!("{population} Pods: writes"), spent.writes(), "", None);
        }
        if let [few, many] = per_event[..] {
            let ratio = many / few;
            note("CPU per change, many Pods to few".to_owned(), ratio, "", Some(1.2));
        }
        crowd.leave().await
    };
    arena.guard(&manager, work).await
}

/// Changes the status of one Pod after the other, at a steady rate; returns how often.
pub(super) async fn change(workload: &Workload, time: Duration) -> Result<usize> {
    change_to(workload, time, |number| {
        let message = number.to_string();
        (
            number,
            json!({"type": "Measured", "status": "True", "message": message}),
        )
    })
    .await
}

/// The same, with the Pod and the condition of each change.
pub(super) async fn change_to(
    workload: &Workload,
    time: Duration,
    nth: impl Fn(usize) -> (usize, Value) + Sync,
) -> Result<usize> {
    let pods = workload.pods.list_metadata(&ListParams::default()).await?;
    let names: Vec<String> = pods.items.iter().map(ResourceExt::name_any).collect();
    let count = usize::try_from(time.as_secs())? * usize::try_from(RATE)?;
    let begin = Instant::now();
    stream::iter(0..count)
        .map(anyhow::Ok)
        .try_for_each_concurrent(16, |number| {
            let (pod, mut condition) = nth(number);
            let name = names.get(pod % names.len().max(1));
            async move {
                let due = begin + Duration::from_secs(1) / RATE * u32::try_from(number)?;
                sleep_until(TokioInstant::from_std(due)).await;
                condition["lastTransitionTime"] = json!(Timestamp::now().to_string());
                let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
                let name = name.context("there are no Pods")?;
                workload
                    .pods
                    .patch_status(name, &PatchParams::default(), &patch)
                    .await?;
                Ok(())
            }
        })
        .await?;
    Ok(count)
}
