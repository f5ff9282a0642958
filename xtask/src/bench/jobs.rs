//! **jobs**: one Pod on each of many nodes, beside a client that only writes; and many schedules for the same minute.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{Timestamp, ToSpan as _, Unit};
use kruise_testkit::sim::{SET_LABEL, SimOptions, SimulatedNodes};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::arena::{Arena, Contender, Spent};
use super::bare::Bare;
use super::manager::Manager;
use super::score::{Chapter, Goal, Subject};
use super::workload::{image, pod_spec, until};
use super::{Size, as_number, bare, kind};

const PATIENCE: Duration = Duration::from_mins(10);
/// Objects that are written at the same time.
const AT_ONCE: usize = 32;
/// How long the making of a schedule takes at most, so that all are there before their minute.
const PER_SCHEDULE: Duration = Duration::from_millis(60);

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    let work = async {
        // First: Pods that come and go afterwards would be work while nothing is to happen.
        if contender.subject != Subject::Bare {
            on_the_minute(arena, &manager, contender.subject, size, chapter).await?;
        }
        everywhere(arena, &manager, contender.subject, size, chapter).await
    };
    arena.guard(&manager, work).await
}

/// A BroadcastJob at a parallelism of 100 %.
async fn everywhere(
    arena: &Arena,
    manager: &Manager,
    subject: Subject,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    let count = size.job_nodes;
    let options = SimOptions {
        count,
        ..SimOptions::default()
    };
    let set = options.name_prefix.clone();
    let nodes = SimulatedNodes::start(arena.client.clone(), options).await?;
    arena.namespace("everywhere").await?;
    // The scheduler uses a node when its taint of the first moments is gone.
    sleep(size.settle).await;
    let what = |what: &str| format!("a Pod on each node: {what}");
    if subject == Subject::Bare {
        let bare = Bare::one_per_node(&arena.client, "everywhere", &nodes.names()).await?;
        let (created, ready) = bare.create().await?;
        chapter.note(subject, what("created"), created.as_secs_f64(), "s", None);
        chapter.note(subject, what("ready"), ready.as_secs_f64(), "s", None);
        return nodes.stop().await;
    }
    let writes = || {
        manager.metrics().sum("kruise_writes_total", |labels| {
            labels.contains("resource=\"broadcastjobs") && labels.contains("verb=\"patch")
        })
    };
    let (before, statuses) = (Spent::so_far(manager)?, writes()?);
    let pods: Api<Pod> = Api::namespaced(arena.client.clone(), "everywhere");
    let begin = Instant::now();
    let make = async {
        let resource = kind("BroadcastJob", "broadcastjobs");
        let jobs: Api<DynamicObject> = Api::namespaced_with(arena.client.clone(), "everywhere", &resource);
        let mut pod = pod_spec(&image(1), false);
        pod["restartPolicy"] = json!("Never");
        pod["nodeSelector"] = json!({(SET_LABEL): set});
        let job = DynamicObject::new("job", &resource).data(json!({"spec": {
            "parallelism": "100%", "template": {"metadata": {"labels": {"app": "job"}}, "spec": pod},
        }}));
        jobs.create(&PostParams::default(), &job).await?;
        anyhow::Ok(())
    };
    let (created, ready, ()) =
        tokio::try_join!(until(&pods, count, |_| true), until(&pods, count, bare::is_ready), make)?;
    let seconds = (ready - begin).as_secs_f64();
    let spent = Spent::since(manager, before)?;
    chapter.note(subject, what("created"), (created - begin).as_secs_f64(), "s", None);
    chapter.note(subject, what("ready"), seconds, "s", None);
    // The first and the last are not mere progress.
    let progress = (writes()? - statuses - 2.0).max(0.0);
    let pace = progress / seconds.max(1.0);
    chapter.note(
        subject,
        what("writes of the progress"),
        pace,
        "/s",
        Some(Goal::AtMost(1.0)),
    );
    let cpu = spent.cpu_per_thousand(count);
    chapter.note(subject, what("CPU per 1,000 Pods"), cpu, "s", None);
    nodes.stop().await
}

/// Many AdvancedCronJobs that are due in the same minute. Their Jobs are suspended: only the schedules are measured.
async fn on_the_minute(
    arena: &Arena,
    manager: &Manager,
    subject: Subject,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    let count = size.schedules;
    arena.namespace("schedules").await?;
    let lead = PER_SCHEDULE * u32::try_from(count)? + size.settle + size.between + Duration::from_secs(5);
    let due = (Timestamp::now() + lead + Duration::from_mins(1))
        .round(Unit::Minute)
        .context("no such minute")?;
    let schedule = due.strftime("%-M %-H %-d %-m *").to_string();
    let resource = kind("AdvancedCronJob", "advancedcronjobs");
    let schedules: Api<DynamicObject> = Api::namespaced_with(arena.client.clone(), "schedules", &resource);
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": image(1)}]});
    let template = json!({"spec": {"suspend": true, "template": {"spec": pod}}});
    stream::iter(0..count)
        .map(|number| {
            let schedule = DynamicObject::new(&format!("s{number}"), &resource).data(json!({"spec": {
                "schedule": schedule, "timeZone": "UTC", "template": {"jobTemplate": template},
            }}));
            let schedules = &schedules;
            async move { schedules.create(&PostParams::default(), &schedule).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    sleep(size.settle).await;
    // The lease is written meanwhile, as always.
    let writes = || {
        manager.metrics().sum("kruise_writes_total", |labels| {
            labels.contains("controller=\"advancedcronjob")
        })
    };
    let (before, written, begin) = (Spent::so_far(manager)?, writes()?, Instant::now());
    sleep(size.between).await;
    let idle = begin.elapsed().as_secs_f64();
    if Timestamp::now() + 1.second() > due {
        bail!("{count} schedules were not there in time");
    }
    let what = |what: &str| format!("schedules for the same minute: {what}");
    let written = writes()? - written;
    chapter.note(subject, what("writes before it"), written, "", Some(Goal::AtMost(0.0)));
    let cpu = Spent::since(manager, before)?.cpu() / idle * 100.0;
    chapter.note(
        subject,
        what("CPU before it"),
        cpu,
        "% of a core",
        Some(Goal::AtMost(0.1)),
    );

    let jobs: Api<Job> = Api::namespaced(arena.client.clone(), "schedules");
    let all = async {
        while jobs.list_metadata(&ListParams::default()).await?.items.len() < count {
            sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(Timestamp::now())
    };
    let ended = timeout(PATIENCE, all)
        .await
        .context("not every schedule has its job")??;
    let late = ended.duration_since(due).as_secs_f64();
    chapter.note(subject, what("all jobs made"), late, "s", Some(Goal::AtMost(10.0)));
    // What comes twice comes now.
    sleep(size.settle).await;
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for job in jobs.list(&ListParams::default()).await?.items {
        let owner = job.owner_references().first().map(|owner| owner.name.clone());
        *made.entry(owner.unwrap_or_default()).or_default() += 1;
    }
    let twice = made.values().filter(|jobs| **jobs > 1).count();
    let missed = count.saturating_sub(made.len());
    let wrong = as_number(twice + missed);
    chapter.note(subject, what("twice or missed"), wrong, "", Some(Goal::AtMost(0.0)));
    Ok(())
}
