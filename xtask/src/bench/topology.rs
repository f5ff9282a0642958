//! **topology**: what a Pod under a WorkloadSpread costs, ten subsets of a UnitedDeployment that nobody changes and that all get a new partition, and one Secret
//! for many namespaces, beside a client that only writes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kruise_api::names::component::controller::{RESOURCE_DISTRIBUTION, UNITED_DEPLOYMENT, WORKLOAD_SPREAD};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::arena::{Arena, Contender, Spent};
use super::load::{self, Target};
use super::manager::Manager;
use super::platform::MEGABYTE;
use super::reviews::{self, Work};
use super::score::{Chapter, Goal, Subject};
use super::workload::{image, pod_spec, until};
use super::{Size, as_number, bare, kind};

const GATES: &str = "--feature-gates=ResourceDistributionGate=true";
const PATIENCE: Duration = Duration::from_mins(15);
/// Writes under way at the same time, as those of the bare client for Pods.
const AT_ONCE: usize = 64;
const SUBSETS: usize = 10;
/// Bytes of the Secret.
const SECRET: usize = 100 << 10;
/// What namespaces have that get the Secret.
const LABEL: &str = "bench.kruise.io/gets";

pub(super) async fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager_with(contender, &[GATES])?;
    let work = async {
        let mut figures = Figures {
            subject: contender.subject,
            chapter,
        };
        if contender.subject != Subject::Bare {
            spread(arena, &manager, size, &mut figures).await?;
            united(arena, &manager, size, &mut figures).await?;
        }
        distribution(arena, &manager, size, &mut figures).await
    };
    arena.guard(&manager, work).await
}

/// What was found of one subject.
struct Figures<'a> {
    subject: Subject,
    chapter: &'a mut Chapter,
}

impl Figures<'_> {
    fn note(&mut self, measure: &str, value: f64, unit: &str, goal: Option<f64>) {
        let goal = goal.map(Goal::AtMost);
        self.chapter.note(self.subject, measure, value, unit, goal);
    }
}

/// Writes of a kind that the manager has made.
fn writes(manager: &Manager, controller: &str, resource: &str) -> Result<f64> {
    manager.metrics().sum("kruise_writes_total", |labels| {
        labels.contains(&format!("controller=\"{controller}")) && labels.contains(&format!("resource=\"{resource}"))
    })
}

/// The webhook is asked about a Pod of a workload that is spread, straight and on one connection: first where nothing has to be written down, then where the subset
/// is limited, so that each Pod is written into the ledger. It is always the same Pod, or the ledger would grow from one question to the next.
async fn spread(arena: &Arena, manager: &Manager, size: &Size, figures: &mut Figures<'_>) -> Result<()> {
    let resource = kind("WorkloadSpread", "workloadspreads");
    let spreads: Api<DynamicObject> = Api::namespaced_with(arena.client.clone(), "default", &resource);
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "demo"});
    let subsets = |most: Value| {
        let zone = |name: &str| {
            let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]});
            json!({"name": name, "requiredNodeSelector": {"matchExpressions": [zone]}})
        };
        let mut first = zone("a");
        first["maxReplicas"] = most;
        json!([first, zone("b")])
    };
    let open = json!({"spec": {"targetRef": target, "subsets": subsets(Value::Null)}});
    let object = DynamicObject::new("demo", &resource).data(open);
    spreads.create(&PostParams::default(), &object).await?;
    sleep(size.settle).await;
    let (plain, _) = asked(manager, size.admission_pods, Work::Nothing).await?;
    let (unwritten, _) = asked(manager, size.admission_pods, Work::Gate).await?;
    let limited = Patch::Merge(json!({"spec": {"subsets": subsets(json!(1000))}}));
    spreads.patch("demo", &PatchParams::default(), &limited).await?;
    sleep(size.settle).await;
    let (written, noted) = asked(manager, size.admission_pods, Work::Gate).await?;
    figures.note("a Pod that no spread is for: CPU of its admission", plain, "ms", None);
    figures.note("a spread Pod: CPU of its admission", unwritten, "ms", Some(0.15));
    figures.note("a spread Pod: CPU with its write", written, "ms", None);
    figures.note("a spread Pod: writes", noted, "", Some(1.05));
    spreads.delete("demo", &DeleteParams::default()).await?;
    Ok(())
}

/// Asks the webhook about a Pod so many times. Returns the milliseconds of CPU and the entries in ledgers that one question took.
async fn asked(manager: &Manager, times: usize, work: Work) -> Result<(f64, f64)> {
    let review = reviews::pod(2, work);
    let target = Target::new(manager.webhook_port, &manager.authority(), reviews::POD_PATH, &review)?;
    let ask = |target: Target, times: usize| spawn_blocking(move || load::one_by_one(&target, times));
    ask(target.clone(), times / 10 + 1).await??;
    let noted = || writes(manager, WORKLOAD_SPREAD, "workloadspreads");
    let (cpu, before) = (manager.cpu()?, noted()?);
    ask(target, times).await??;
    let cpu = manager.cpu()?.saturating_sub(cpu).as_secs_f64() * 1000.0;
    Ok((cpu / as_number(times), (noted()? - before) / as_number(times)))
}

/// Ten subsets of CloneSets: at rest nothing is written, and a new partition is one write of each.
async fn united(arena: &Arena, manager: &Manager, size: &Size, figures: &mut Figures<'_>) -> Result<()> {
    const NAMESPACE: &str = "united";
    let count = SUBSETS * size.subset_pods;
    let nodes = arena.nodes_for(count).await?;
    arena.namespace(NAMESPACE).await?;
    let resource = kind("UnitedDeployment", "uniteddeployments");
    let united: Api<DynamicObject> = Api::namespaced_with(arena.client.clone(), NAMESPACE, &resource);
    let pods: Api<Pod> = Api::namespaced(arena.client.clone(), NAMESPACE);
    let labels = json!({"app": "web"});
    let names: Vec<String> = (0..SUBSETS).map(|number| format!("s{number}")).collect();
    let subsets: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let object = DynamicObject::new("web", &resource).data(json!({"spec": {
        "replicas": count, "selector": {"matchLabels": labels},
        "template": {"cloneSetTemplate": {"metadata": {"labels": labels}, "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(&image(1), false)},
        }}},
        "topology": {"subsets": subsets},
    }}));
    let begin = Instant::now();
    let make = async {
        united.create(&PostParams::default(), &object).await?;
        anyhow::Ok(())
    };
    let (ready, ()) = tokio::try_join!(until(&pods, count, bare::is_ready), make)?;
    figures.note("ten subsets: ready", (ready - begin).as_secs_f64(), "s", None);
    sleep(size.settle).await;

    let all = || writes(manager, UNITED_DEPLOYMENT, "");
    let (written, before) = (all()?, Spent::so_far(manager)?);
    sleep(size.rest).await;
    let spent = Spent::since(manager, before)?;
    figures.note("ten subsets at rest: writes", all()? - written, "", Some(0.0));
    let cpu = spent.cpu() / size.rest.as_secs_f64() * 100.0;
    figures.note("ten subsets at rest: CPU", cpu, "% of a core", None);

    let half = size.subset_pods / 2;
    let partitions: Value = names.iter().map(|name| (name.clone(), json!(half))).collect();
    let change = Patch::Merge(json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": partitions}}}}));
    let before = writes(manager, UNITED_DEPLOYMENT, "clonesets")?;
    let begin = Instant::now();
    united.patch("web", &PatchParams::default(), &change).await?;
    let resource = kind("CloneSet", "clonesets");
    let sets: Api<DynamicObject> = Api::namespaced_with(arena.client.clone(), NAMESPACE, &resource);
    wait(|| async {
        let sets = sets.list(&ListParams::default()).await?.items;
        let has = |set: &DynamicObject| set.data["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == half;
        Ok(sets.len() == SUBSETS && sets.iter().all(has))
    })
    .await
    .context("a new partition for all subsets")?;
    figures.note("a new partition: all have it", begin.elapsed().as_secs_f64(), "s", None);
    sleep(size.settle).await;
    let each = (writes(manager, UNITED_DEPLOYMENT, "clonesets")? - before) / as_number(SUBSETS);
    figures.note("a new partition: writes per subset", each, "", Some(1.0));
    nodes.stop().await
}

/// One Secret for many namespaces, and another content for all of them.
async fn distribution(arena: &Arena, manager: &Manager, size: &Size, figures: &mut Figures<'_>) -> Result<()> {
    let count = size.namespaces;
    let names: Vec<String> = (0..count).map(|number| format!("gets-{number}")).collect();
    let namespaces: Api<Namespace> = Api::all(arena.client.clone());
    for_all(&names, |name| {
        let namespaces = namespaces.clone();
        async move {
            let namespace = json!({"metadata": {"name": name, "labels": {(LABEL): "true"}}});
            let namespace = serde_json::from_value(namespace)?;
            namespaces.create(&PostParams::default(), &namespace).await?;
            Ok(())
        }
    })
    .await?;
    sleep(size.settle).await;
    let memory = manager.memory()?;
    for (version, what) in [
        (1, "one Secret for all namespaces"),
        (2, "another content for all namespaces"),
    ] {
        let begin = Instant::now();
        if figures.subject == Subject::Bare {
            by_hand(arena, &names, version).await?;
        } else {
            distribute(arena, version).await?;
            reached(arena, count, version).await?;
        }
        figures.note(what, begin.elapsed().as_secs_f64(), "s", None);
    }
    if figures.subject == Subject::Bare {
        return Ok(());
    }
    sleep(size.settle).await;
    let after = manager.memory()?;
    figures.note(
        "one Secret for all namespaces: memory",
        (after - memory) / MEGABYTE,
        "MB",
        Some(20.0),
    );
    let written = writes(manager, RESOURCE_DISTRIBUTION, "")?;
    sleep(size.rest).await;
    let growth = (manager.memory()? - after) / MEGABYTE;
    figures.note("one Secret for all namespaces: growth at rest", growth, "MB", Some(1.0));
    let written = writes(manager, RESOURCE_DISTRIBUTION, "")? - written;
    figures.note("one Secret for all namespaces: writes at rest", written, "", Some(0.0));
    Ok(())
}

fn secret(version: u8) -> Secret {
    let content = ByteString(vec![b'0' + version; SECRET]);
    Secret {
        metadata: ObjectMeta {
            name: Some("shared".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("content".to_owned(), content)].into()),
        ..Secret::default()
    }
}

/// The writes alone.
async fn by_hand(arena: &Arena, names: &[String], version: u8) -> Result<()> {
    for_all(names, |name| {
        let secrets: Api<Secret> = Api::namespaced(arena.client.clone(), &name);
        async move {
            if version == 1 {
                secrets.create(&PostParams::default(), &secret(version)).await?;
            } else {
                let content = Patch::Merge(json!({"data": secret(version).data}));
                secrets.patch("shared", &PatchParams::default(), &content).await?;
            }
            Ok(())
        }
    })
    .await
}

async fn distribute(arena: &Arena, version: u8) -> Result<()> {
    let kind = kind("ResourceDistribution", "resourcedistributions");
    let all: Api<DynamicObject> = Api::all_with(arena.client.clone(), &kind);
    let spec = json!({"spec": {"resource": secret(version), "targets": {"namespaceSelector": {"matchLabels": {(LABEL): "true"}}}}});
    if version == 1 {
        all.create(&PostParams::default(), &DynamicObject::new("shared", &kind).data(spec))
            .await?;
    } else {
        all.patch("shared", &PatchParams::default(), &Patch::Merge(spec))
            .await?;
    }
    Ok(())
}

/// Waits until the status says that all namespaces have what the latest spec says, and they do.
async fn reached(arena: &Arena, count: usize, version: u8) -> Result<()> {
    let kind = kind("ResourceDistribution", "resourcedistributions");
    let all: Api<DynamicObject> = Api::all_with(arena.client.clone(), &kind);
    wait(|| async {
        let object = all.get("shared").await?;
        let status = &object.data["status"];
        Ok(status["observedGeneration"] == json!(object.metadata.generation) && status["succeeded"] == count)
    })
    .await
    .context("the Secret in all namespaces")?;
    let last: Api<Secret> = Api::namespaced(arena.client.clone(), &format!("gets-{}", count - 1));
    if last.get("shared").await?.data != secret(version).data {
        bail!("the status says that all namespaces have the Secret, and one does not");
    }
    Ok(())
}

async fn for_all<F: Future<Output = Result<()>>>(names: &[String], act: impl Fn(String) -> F) -> Result<()> {
    stream::iter(names.iter().cloned())
        .map(act)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Looks again and again until it is so.
async fn wait<F: Future<Output = Result<bool>>>(is_so: impl Fn() -> F) -> Result<()> {
    let work = async {
        while !is_so().await? {
            sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, work).await.context("not so in time")?
}
