//! **admission**, the part about sidecars: Pods into which SidecarSets are injected, and Pods among many sets that are for others.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::admission::percentiles;
use super::arena::{Arena, Contender};
use super::load::{self, Target};
use super::manager::Manager;
use super::platform::milliseconds;
use super::reviews::{self, Work};
use super::score::{Chapter, Goal};
use super::workload::{image, pod_spec};
use super::{Size, as_number, kind};

const NAMESPACE: &str = "injection";
const CONNECTIONS: u32 = 8;
/// Requests per second of the steady load.
const STEADY: u32 = 1000;
/// Sets that are all for the Pod.
const MATCHING: usize = 20;
/// Label `app` of the Pods that the webhook is asked about.
const ASKED: &str = "demo";
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_mins(3);

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    arena.namespace(NAMESPACE).await?;
    let sets = Sets::new(&arena.client, NAMESPACE);
    let names = sets.create(MATCHING, |_| ASKED.to_owned()).await?;
    sets.are_known(ASKED, MATCHING).await?;
    let what = format!("{MATCHING} SidecarSets");
    let target = target(&manager)?;
    flat_out((&manager, &target), (contender, &what, 0.12), size, chapter)?;
    let times = load::steady(&target, CONNECTIONS, STEADY, size.admission * 5)?;
    for (name, time) in percentiles(&times) {
        let measure = format!("{what}, steady {STEADY}/s: {name}");
        let goal = (name == "p99").then_some(Goal::AtMost(4.0));
        chapter.note(contender.subject, measure, time, "ms", goal);
    }
    sets.delete(&names).await?;
    sets.are_known(ASKED, 0).await?;

    let others = size.other_sets;
    sets.create(others, |number| format!("other-{number}")).await?;
    sets.are_known(&format!("other-{}", others - 1), 1).await?;
    let what = format!("{others} SidecarSets for others");
    flat_out((&manager, &target), (contender, &what, 0.04), size, chapter)
}

fn target(manager: &Manager) -> Result<Target> {
    let review = reviews::pod(2, Work::Nothing);
    Target::new(manager.webhook_port, &manager.authority(), reviews::POD_PATH, &review)
}

/// As many questions as can be answered; `goal` is the most that each may take of the processor, in milliseconds.
fn flat_out(
    (manager, target): (&Manager, &Target),
    (contender, what, goal): (&Contender, &str, f64),
    size: &Size,
    chapter: &mut Chapter,
) -> Result<()> {
    load::one_by_one(target, 1000)?;
    let before = manager.cpu()?;
    let times = load::flat_out(target, CONNECTIONS, size.admission)?;
    let each = manager.cpu()?.saturating_sub(before) / u32::try_from(times.count())?;
    let rate = as_number(times.count()) / size.admission.as_secs_f64();
    let mut note = |name: &str, value: f64, unit: &str, goal: Option<f64>| {
        let measure = format!("{what}, {CONNECTIONS} connections: {name}");
        chapter.note(contender.subject, measure, value, unit, goal.map(Goal::AtMost));
    };
    note("answers", rate, "/s", None);
    note("CPU each", milliseconds(each), "ms", Some(goal));
    for (name, time) in percentiles(&times) {
        note(name, time, "ms", None);
    }
    Ok(())
}

/// SidecarSets, each with one container and a volume of its own.
pub(super) struct Sets {
    sets: Api<DynamicObject>,
    /// Where it is tried whether they are known.
    pods: Api<Pod>,
}

/// The container that a set injects.
pub(super) fn sidecar(set: &str, version: u32) -> Value {
    json!({
        "name": format!("side-{set}"), "image": sidecar_image(version),
        "env": [{"name": "A", "value": "1"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "volumeMounts": [{"name": format!("buffer-{set}"), "mountPath": "/buffer"}],
    })
}

pub(super) fn sidecar_image(version: u32) -> String {
    format!("registry.example/sidecar:{version}")
}

impl Sets {
    /// None yet; `namespace` is one in which Pods can be created.
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            sets: Api::all_with(client.clone(), &kind("SidecarSet", "sidecarsets")),
            pods: Api::namespaced(client.clone(), namespace),
        }
    }

    /// Makes so many sets, each for the Pods of an app; returns their names. The last one is made when the others are there.
    pub(super) async fn create(&self, count: usize, app: impl Fn(usize) -> String) -> Result<Vec<String>> {
        let names: Vec<String> = (0..count).map(|number| format!("set-{number:04}")).collect();
        let create = |(number, name): (usize, &String)| {
            let set = DynamicObject::new(name, &kind("SidecarSet", "sidecarsets")).data(json!({"spec": {
                "selector": {"matchLabels": {"app": app(number)}},
                "containers": [sidecar(name, 1)],
                "volumes": [{"name": format!("buffer-{name}"), "emptyDir": {}}],
                "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "100%"},
            }}));
            async move { self.sets.create(&PostParams::default(), &set).await.map(drop) }
        };
        let all: Vec<_> = names.iter().enumerate().map(create).collect();
        let mut all = all.into_iter();
        let last = all.next_back();
        stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        if let Some(last) = last {
            last.await?;
        }
        Ok(names)
    }

    pub(super) async fn patch(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.sets.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(super) async fn delete(&self, names: &[String]) -> Result<()> {
        stream::iter(names)
            .map(|name| async move { self.sets.delete(name, &DeleteParams::default()).await.map(drop) })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(())
    }

    /// Waits until a Pod of this app would get so many sidecars.
    pub(super) async fn are_known(&self, app: &str, count: usize) -> Result<()> {
        let pod = json!({"metadata": {"name": "probe", "labels": {"app": app}}, "spec": pod_spec(&image(1), false)});
        let pod: Pod = serde_json::from_value(pod)?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let known = async {
            while sidecars(&self.pods.create(&dry_run, &pod).await?) != count {
                sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, known)
            .await
            .with_context(|| format!("no Pod with {count} sidecars"))?
    }
}

fn sidecars(pod: &Pod) -> usize {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|container| container.name.starts_with("side-"))
        .count()
}
