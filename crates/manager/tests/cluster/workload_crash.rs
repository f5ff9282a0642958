//! The controllers die after any of their writes for a workload; their successors bring it to the same end.
//!
//! Each case is run once without a crash, which tells how many writes it takes, and then with a crash after some of them, or after each of them in a
//! run of torture, side by side. Each of these has to end in its crash.

mod cloneset;
mod daemonset;
mod statefulset;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{controllers::Controllers, pod_history::PodHistory, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 6;
/// Crashes of a case in an ordinary run.
const SAMPLE: u64 = 6;
const NODES: usize = 3;
/// It changes nothing for those who do not ask for it.
const GATES: &str = "--feature-gates=StatefulSetAutoResizePVCGate=true,PodUnavailableBudgetUpdateGate=true";

/// What is changed, and what has to come of it.
#[derive(Clone)]
struct Case {
    before: Workload,
    /// Fields of the status before the change.
    settled: Value,
    change: Value,
    /// Fields of the status in the end.
    status: Value,
    /// Pods in the end.
    pods: usize,
    /// Living Pods at any time.
    most: usize,
    image: &'static str,
    kept: Kept,
    /// How many may be unavailable at a time by a PodUnavailableBudget that is asked before each update; without one there is none.
    budget: Option<usize>,
}

/// Which of the Pods of before are there in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    /// Every one.
    All,
    /// Some of them, and no other.
    Some,
    /// None.
    None,
}

impl Kept {
    fn is_true(self, old: &BTreeSet<String>, new: &BTreeSet<String>) -> bool {
        match self {
            Self::All => old.is_subset(new),
            Self::Some => new.is_subset(old),
            Self::None => old.is_disjoint(new),
        }
    }
}

/// A template for claims of this size, of a class.
fn claims(size: &str, class: Option<&str>) -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": class,
    }}])
}

fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn crash_after_any_write(name: &'static str, case: impl Fn(&SimulatedNodes) -> Case + Send + Sync + 'static) {
    run_test(torture::deadline(Duration::from_mins(10)), async move {
        let world = World::new(&format!("crash-{name}")).await;
        crash_after_any_write_in(&world, name, case).await;
    });
}

async fn crash_after_any_write_in(world: &World, name: &str, case: impl Fn(&SimulatedNodes) -> Case) {
    let options = SimOptions {
        count: NODES,
        name_prefix: format!("crash-{name}"),
        ..SimOptions::default()
    };
    let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
    let case = case(&nodes);
    let writes = Attempt::begin(world, case.clone()).await.run(None).await;
    assert!(writes > 3, "{writes}");
    let crashes = stream::iter(torture::sample(1, writes, SAMPLE)).map(|write| {
        let case = case.clone();
        async move { Attempt::begin(world, case).await.run(Some(write)).await }
    });
    crashes.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
    nodes.stop().await.unwrap();
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = json!(pod.status)["conditions"].clone();
    let all = conditions.as_array().cloned().unwrap_or_default();
    all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

struct Attempt {
    case: Case,
    work: FreshNamespace,
    sets: Api<DynamicObject>,
    faults: Faults,
    controllers: Controllers,
    pods_before: BTreeMap<String, Pod>,
}

impl Attempt {
    async fn begin(world: &World, case: Case) -> Self {
        let work = namespace::fresh(&world.client, "crash").await.unwrap();
        let set = case.before.clone().json();
        let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", set["kind"].as_str().unwrap());
        let sets = Api::namespaced_with(world.client.clone(), work.name(), &ApiResource::from_gvk(&kind));
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": set["kind"], "name": "web"});
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        if let Some(budget) = case.budget {
            let budgets: Api<PodUnavailableBudget> = work.api();
            // A kind without a scale subresource does not say how many Pods there should be.
            let spec = json!({"targetRef": target, "maxUnavailable": budget, "protectTotalReplicas": case.pods});
            let budget = json!({"metadata": {"name": "web"}, "spec": spec});
            let budget = serde_json::from_value(budget).unwrap();
            budgets.create(&PostParams::default(), &budget).await.unwrap();
        }
        let faults = Faults::new(1);
        let controllers = Controllers::start_with(work.name(), &faults, &[GATES]).await;
        let mut this = Self {
            case,
            work,
            sets,
            faults,
            controllers,
            pods_before: BTreeMap::new(),
        };
        this.status(&this.case.settled).await;
        this.budget_is_free().await;
        this.pods_before = this.pods().await.unwrap();
        this
    }

    /// Makes the change; the controllers die with a write after it, or do not. How many writes it took.
    async fn run(self, crash_after: Option<u64>) -> u64 {
        let before = self.faults.writes();
        if let Some(write) = crash_after {
            self.faults.crash_after_writes(before + write);
        }
        let history = PodHistory::begin(self.work.api(), "web").await;
        let change = Patch::Merge(&self.case.change);
        self.sets.patch("web", &PatchParams::default(), &change).await.unwrap();
        tokio::select! {
            () = self.faults.until_crashed() => {}
            () = self.comes_to_its_end(crash_after) => {}
        }
        let writes = self.faults.writes() - before;
        if crash_after.is_some() {
            self.crashes().await;
            let successor = Controllers::start_with(self.work.name(), &Faults::new(2), &[GATES]).await;
            self.comes_to_its_end(crash_after).await;
            successor.stop().await;
        }
        for pods in history.end().await {
            assert!(pods.len() <= self.case.most, "{crash_after:?}: {:?}", pods.keys());
            if let Some(budget) = self.case.budget {
                let ready = pods.values().filter(|pod| is_ready(pod)).count();
                assert!(ready + budget >= self.case.pods, "{crash_after:?}: {ready} are ready");
            }
        }
        self.controllers.stop().await;
        writes
    }

    /// A run may need a write less than the first one did, when two reports of the status become one. Then the set is changed in a way that asks for
    /// nothing but another report, until the crash has happened.
    async fn crashes(&self) {
        let any = json!({});
        for limit in 11.. {
            if self.faults.crashed() {
                return;
            }
            let change = Patch::Merge(json!({"spec": {"revisionHistoryLimit": limit}}));
            self.sets.patch("web", &PatchParams::default(), &change).await.unwrap();
            tokio::select! {
                () = self.faults.until_crashed() => {}
                () = self.status(&any) => {}
            }
        }
    }

    async fn comes_to_its_end(&self, crash_after: Option<u64>) {
        self.status(&self.case.status).await;
        self.budget_is_free().await;
        eventually(PATIENCE, &format!("all is well after {crash_after:?}"), || async {
            let pods = self.pods().await?;
            let claims: Api<PersistentVolumeClaim> = self.work.api();
            let claims = claims.list(&ListParams::default()).await?.items;
            let claims: BTreeSet<String> = claims.iter().map(ResourceExt::name_any).collect();
            let is_updated = |pod: &Pod| json!(pod.spec)["containers"][0]["image"] == self.case.image;
            let uids =
                |pods: &BTreeMap<String, Pod>| pods.values().filter_map(ResourceExt::uid).collect::<BTreeSet<_>>();
            let kept = self.case.kept.is_true(&uids(&self.pods_before), &uids(&pods));
            let with_claims = self.case.before.clone().json()["spec"]["volumeClaimTemplates"].is_array();
            let wanted = pods.keys().filter(|_| with_claims).map(|pod| format!("data-{pod}"));
            let fits = pods.len() == self.case.pods && pods.values().all(is_updated) && kept;
            (fits && claims == wanted.collect())
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{:?}, {claims:?}", pods.keys())))
        })
        .await;
    }

    /// Waits until a budget, if there is one, has all its places again.
    async fn budget_is_free(&self) {
        let Some(allowed) = self.case.budget else { return };
        let budgets: Api<PodUnavailableBudget> = self.work.api();
        eventually(PATIENCE, "the budget has its places", || async {
            let status = budgets.get("web").await?.status.unwrap_or_default();
            let places = status.disrupted_pods.len() + status.unavailable_pods.len();
            let left = usize::try_from(status.unavailable_allowed).unwrap_or_default();
            (left == allowed && places == 0)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{status:?}")))
        })
        .await;
    }

    async fn status(&self, expected: &Value) {
        eventually(PATIENCE, "the status is as expected", || async {
            let set = self.sets.get("web").await?;
            let status = &set.data["status"];
            let seen = status["observedGeneration"].as_i64() == set.metadata.generation;
            let fields = expected.as_object().unwrap();
            // Zero may be left out.
            let is = |found: &Value, value: &Value| found == value || (found.is_null() && *value == json!(0));
            let matches = fields.iter().all(|(field, value)| is(&status[field], value));
            (seen && matches)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{expected} is not in {status:#}")))
        })
        .await;
    }

    async fn pods(&self) -> kube::Result<BTreeMap<String, Pod>> {
        let pods: Api<Pod> = self.work.api();
        let pods = pods.list(&ListParams::default()).await?.items.into_iter();
        let living = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(living.map(|pod| (pod.name_any(), pod)).collect())
    }
}
