//! The controllers die after any of their writes for a CloneSet; their successors bring it to the same end.
//!
//! Each case is run once without a crash, which tells how many writes it takes, and then with a crash after some of them, or after each of them in a
//! run of torture, side by side. Each of these has to end in its crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_testkit::{
    builders::{Fixture as _, Workload, cloneset},
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

/// What is changed, and what has to come of it.
#[derive(Clone)]
struct Case {
    before: Workload,
    change: Value,
    /// Fields of the status in the end.
    status: Value,
    replicas: usize,
    image: &'static str,
    /// Whether every Pod of before is there in the end.
    keeps_pods: bool,
    /// How many may be unavailable at a time by a PodUnavailableBudget that is asked before each update; without one there is none.
    budget: Option<usize>,
}

#[test]
fn given_a_crash_after_any_write_of_scaling_out_then_no_pod_is_doubled() {
    crash_after_any_write("out", |_| Case {
        before: cloneset("web").replicas(1),
        change: json!({"spec": {"replicas": 4}}),
        status: json!({"replicas": 4, "availableReplicas": 4, "updatedReplicas": 4}),
        replicas: 4,
        image: "nginx:1",
        keeps_pods: true,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_of_an_update_in_place_then_every_pod_is_updated_and_kept() {
    let strategy = json!({"maxUnavailable": 2, "podUpdatePolicy": "InPlaceIfPossible"});
    crash_after_any_write("update", move |_| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/updateStrategy/rollingUpdate", strategy.clone()),
        change: json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}),
        status: json!({"replicas": 3, "updatedAvailableReplicas": 3}),
        replicas: 3,
        image: "nginx:2",
        keeps_pods: true,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_of_scaling_in_with_claims_then_no_claim_is_left() {
    let claim = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}]);
    // Nobody provides volumes, so the scheduler would wait for ever: the Pods go past it.
    crash_after_any_write("in", move |node| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/scaleStrategy/enablePVCReuse", true)
            .set("/spec/updateStrategy/rollingUpdate/maxUnavailable", "100%")
            .set("/spec/volumeClaimTemplates", claim.clone())
            .pod(|pod| pod.on_node(node)),
        change: json!({"spec": {"replicas": 1}}),
        status: json!({"replicas": 1, "availableReplicas": 1}),
        replicas: 1,
        image: "nginx:1",
        keeps_pods: false,
        budget: None,
    });
}

#[test]
fn given_a_crash_after_any_write_within_a_budget_then_it_holds_and_its_places_come_back() {
    let strategy = json!({"maxUnavailable": 3, "podUpdatePolicy": "InPlaceIfPossible"});
    crash_after_any_write("budget", move |_| Case {
        before: cloneset("web")
            .replicas(3)
            .set("/spec/updateStrategy/rollingUpdate", strategy.clone()),
        change: json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}),
        status: json!({"replicas": 3, "updatedAvailableReplicas": 3}),
        replicas: 3,
        image: "nginx:2",
        keeps_pods: true,
        budget: Some(1),
    });
}

fn crash_after_any_write(name: &'static str, case: impl Fn(&str) -> Case + Send + Sync + 'static) {
    run_test(torture::deadline(Duration::from_mins(10)), async move {
        let world = World::new(&format!("crash-{name}")).await;
        let options = SimOptions {
            count: 2,
            name_prefix: format!("crash-{name}"),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let case = case(&nodes.names()[0]);
        let writes = Attempt::begin(&world, case.clone()).await.run(None).await;
        assert!(writes > 3, "{writes}");
        let crashes = stream::iter(torture::sample(1, writes, SAMPLE)).map(|write| {
            let (world, case) = (&world, case.clone());
            async move { Attempt::begin(world, case).await.run(Some(write)).await }
        });
        crashes.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        nodes.stop().await.unwrap();
    });
}

impl Case {
    fn flags(&self) -> &'static [&'static str] {
        if self.budget.is_some() {
            &["--feature-gates=PodUnavailableBudgetUpdateGate=true"]
        } else {
            &[]
        }
    }
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
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet"));
        let sets = Api::namespaced_with(world.client.clone(), work.name(), &kind);
        let set = case.before.clone().json();
        let replicas = set["spec"]["replicas"].clone();
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        if let Some(budget) = case.budget {
            let budgets: Api<PodUnavailableBudget> = work.api();
            let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
            let budget = json!({"metadata": {"name": "web"}, "spec": {"targetRef": target, "maxUnavailable": budget}});
            let budget = serde_json::from_value(budget).unwrap();
            budgets.create(&PostParams::default(), &budget).await.unwrap();
        }
        let faults = Faults::new(1);
        let controllers = Controllers::start_with(work.name(), &faults, case.flags()).await;
        let mut this = Self {
            case,
            work,
            sets,
            faults,
            controllers,
            pods_before: BTreeMap::new(),
        };
        this.status(&json!({"replicas": replicas, "availableReplicas": replicas}))
            .await;
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
            let flags = self.case.flags();
            let successor = Controllers::start_with(self.work.name(), &Faults::new(2), flags).await;
            self.comes_to_its_end(crash_after).await;
            successor.stop().await;
        }
        let most = self.pods_before.len().max(self.case.replicas);
        for pods in history.end().await {
            assert!(pods.len() <= most, "{crash_after:?}: {:?}", pods.keys());
            if let Some(budget) = self.case.budget {
                let ready = pods.values().filter(|pod| is_ready(pod)).count();
                assert!(
                    ready + budget >= self.case.replicas,
                    "{crash_after:?}: {ready} are ready"
                );
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
            let (old, new) = (uids(&self.pods_before), uids(&pods));
            let kept = if self.case.keeps_pods {
                old.is_subset(&new)
            } else {
                new.is_subset(&old)
            };
            let with_claims = self.case.before.clone().json()["spec"]["volumeClaimTemplates"].is_array();
            let wanted = pods.keys().filter(|_| with_claims).map(|pod| format!("data-{pod}"));
            let fits = pods.len() == self.case.replicas && pods.values().all(is_updated) && kept;
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
            let matches = fields.iter().all(|(field, value)| status[field] == *value);
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
