//! **protection**: deletions and evictions of Pods among many budgets, and the deletion of a namespace with many Pods.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::names::group;
use kube::api::{ApiResource, DynamicObject, EvictParams, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::arena::{Arena, Contender};
use super::bare::Bare;
use super::load::{self, Target};
use super::manager::Manager;
use super::platform::milliseconds;
use super::score::{Chapter, Goal, Subject};
use super::{Size, as_number, reviews};

const NAMESPACE: &str = "protection";
const FULL: &str = "full";
const BUDGET: &str = "web";
/// Protection by labels is off by default.
const GATES: &str = "--feature-gates=ResourcesDeletionProtection=true";
const CONNECTIONS: u32 = 8;
/// Clients that evict, with so many requests of each under way.
const CLIENTS: usize = 4;
const AT_ONCE: usize = 16;
/// Deletions of the namespace that are asked about.
const ASKED: usize = 500;
const PATIENCE: Duration = Duration::from_mins(5);

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager_with(contender, &[GATES])?;
    let work = async {
        arena.namespace(NAMESPACE).await?;
        let is_bare = contender.subject == Subject::Bare;
        if !is_bare {
            budgets(arena, size).await?;
        }
        let pods = arena.nodes_for(size.evictions + 1).await?;
        let names = pods.names();
        Bare::on_nodes(&arena.client, NAMESPACE, size.evictions + 1, &names)
            .await?
            .create()
            .await?;
        if !is_bare {
            counted(arena, size).await?;
            deletions(&manager, contender, size, chapter)?;
        }
        evictions(arena, &manager, contender, size, chapter).await?;
        pods.stop().await?;
        if !is_bare {
            namespace(arena, &manager, contender, size, chapter).await?;
        }
        Ok(())
    };
    arena.guard(&manager, work).await
}

fn budgets_of(arena: &Arena) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group::POLICY, "v1beta1", "PodUnavailableBudget");
    let kind = ApiResource::from_gvk_with_plural(&kind, "podunavailablebudgets");
    Api::namespaced_with(arena.client.clone(), NAMESPACE, &kind)
}

/// One budget over all Pods but one, and many over none.
async fn budgets(arena: &Arena, size: &Size) -> Result<()> {
    let api = &budgets_of(arena);
    let make = |name: String, label: String, total: usize| async move {
        let budget = json!({
            "apiVersion": format!("{}/v1beta1", group::POLICY), "kind": "PodUnavailableBudget", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": label}}, "minAvailable": 1, "protectTotalReplicas": total},
        });
        api.create(&PostParams::default(), &serde_json::from_value(budget)?)
            .await?;
        anyhow::Ok(())
    };
    make(BUDGET.to_owned(), "bare".to_owned(), size.evictions + 1).await?;
    stream::iter(1..size.budgets)
        .map(|number| make(format!("other-{number}"), format!("other-{number}"), 1))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await
}

/// Waits until the budget allows all evictions.
async fn counted(arena: &Arena, size: &Size) -> Result<()> {
    let api = budgets_of(arena);
    let all = async {
        loop {
            let status = api.get(BUDGET).await?.data["status"].clone();
            if status["unavailableAllowed"] == json!(size.evictions) {
                return anyhow::Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(PATIENCE, all).await.context("the budget is not counted")?
}

/// What one question costs, straight at the webhook. A dry run is judged as any other, and writes nothing.
fn deletions(manager: &Manager, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    for (what, budget, goal) in [
        ("a deletion that no budget covers: CPU", None, 0.03),
        ("a deletion that one of many budgets covers: CPU", Some(BUDGET), 0.15),
    ] {
        let review = reviews::pod_deletion(NAMESPACE, budget);
        let target = Target::new(
            manager.webhook_port,
            &manager.authority(),
            reviews::POD_DELETION_PATH,
            &review,
        )?;
        load::one_by_one(&target, 500)?;
        let before = manager.cpu()?;
        let times = load::flat_out(&target, CONNECTIONS, size.admission)?;
        let cpu = manager.cpu()?.saturating_sub(before) / u32::try_from(times.count())?;
        chapter.note(
            contender.subject,
            what,
            milliseconds(cpu),
            "ms",
            Some(Goal::AtMost(goal)),
        );
    }
    Ok(())
}

/// Evicts all Pods but one, as fast as the API server takes it.
async fn evictions(
    arena: &Arena,
    manager: &Manager,
    contender: &Contender,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(arena.client.clone(), NAMESPACE);
    let all = pods.list_metadata(&ListParams::default()).await?.items;
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).take(size.evictions).collect();
    if names.len() < size.evictions {
        bail!("only {} Pods are there", names.len());
    }
    let conflicts = || {
        manager.metrics().sum("kruise_writes_total", |labels| {
            let is_place = labels.contains("controller=\"pub-controller\"") && labels.contains("podunavailablebudgets");
            is_place && labels.contains("result=\"conflict\"")
        })
    };
    let (before, begin) = (conflicts()?, Instant::now());
    stream::iter(&names)
        .map(|name| {
            let pods = &pods;
            async move { pods.evict(name, &EvictParams::default()).await.map(drop) }
        })
        .buffer_unordered(CLIENTS * AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let rate = as_number(names.len()) / begin.elapsed().as_secs_f64();
    chapter.note(contender.subject, "evictions", rate, "/s", Some(Goal::AtLeast(100.0)));
    if contender.subject == Subject::Ours {
        let each = (conflicts()? - before) / as_number(names.len());
        let what = "evictions: conflicts each";
        chapter.note(contender.subject, what, each, "", Some(Goal::AtMost(1.0)));
    }
    Ok(())
}

/// The deletion of a namespace whose Pods are in the cache.
async fn namespace(
    arena: &Arena,
    manager: &Manager,
    contender: &Contender,
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    arena.namespace(FULL).await?;
    let pods: Api<Pod> = Api::namespaced(arena.client.clone(), FULL);
    // Nobody schedules them: what counts is that they are there.
    let pod = |number: usize| -> Value {
        let container = json!({"name": "main", "image": "registry.example/main:1"});
        json!({"metadata": {"name": format!("pod-{number}")}, "spec": {"schedulerName": "nobody", "containers": [container]}})
    };
    stream::iter(0..size.namespace_pods)
        .map(|number| {
            let (pods, made) = (&pods, serde_json::from_value(pod(number)));
            async move {
                let _: () = drop(pods.create(&PostParams::default(), &made?).await?);
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CLIENTS * AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    sleep(size.settle).await;
    let review = reviews::namespace_deletion(FULL);
    let target = Target::new(
        manager.webhook_port,
        &manager.authority(),
        reviews::NAMESPACE_DELETION_PATH,
        &review,
    )?;
    let times = load::one_by_one(&target.refused(), ASKED)?;
    let what = |share: &str| format!("deletion of a namespace with {} Pods: {share}", size.namespace_pods);
    for (share, per_mille, goal) in [("p50", 500, Some(2.0)), ("p99", 990, None)] {
        let time = milliseconds(times.per_mille(per_mille));
        chapter.note(contender.subject, what(share), time, "ms", goal.map(Goal::AtMost));
    }
    Ok(())
}
