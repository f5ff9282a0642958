//! The controllers die after any of their writes for a UnitedDeployment; their successors bring it to the same end.
//!
//! Each case is run once without a crash, which tells how many writes it takes, and then with a crash after some of them, or after each of them in a run of torture.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, stream};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{chart::Kinds, controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 4;
/// Crashes of a case in an ordinary run.
const SAMPLE: u64 = 5;
const SUBSET: &str = "apps.kruise.io/subset-name";

/// What is changed, and what has to come of it.
#[derive(Clone)]
struct Case {
    change: Value,
    /// Wanted Pods of each subset in the end.
    shares: BTreeMap<&'static str, i64>,
    image: &'static str,
}

#[test]
fn given_a_crash_after_any_write_of_a_new_topology_then_each_subset_has_one_workload() {
    crash_after_any_write(
        "topology",
        &Case {
            change: json!({"spec": {"replicas": 5, "topology": {"subsets": [{"name": "b", "replicas": "60%"}, {"name": "c"}]}}}),
            shares: [("b", 3), ("c", 2)].into(),
            image: "nginx:1",
        },
    );
}

#[test]
fn given_a_crash_after_any_write_of_a_new_template_then_all_subsets_have_it() {
    let pod = json!({"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}});
    crash_after_any_write(
        "template",
        &Case {
            change: json!({"spec": {"template": {"cloneSetTemplate": {"spec": {"template": pod}}}}}),
            shares: [("a", 2), ("b", 2)].into(),
            image: "nginx:2",
        },
    );
}

fn crash_after_any_write(name: &'static str, case: &Case) {
    let case = case.clone();
    run_test(torture::deadline(Duration::from_mins(10)), async move {
        let test = format!("united-{name}");
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), &test).await;
        let options = SimOptions {
            count: 2,
            name_prefix: test,
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
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

struct Attempt {
    case: Case,
    work: FreshNamespace,
    united: Api<DynamicObject>,
    sets: Api<DynamicObject>,
    faults: Faults,
    controllers: Controllers,
}

impl Attempt {
    async fn begin(world: &World, case: Case) -> Self {
        let work = namespace::fresh(&world.client, "crash").await.unwrap();
        let objects = |kind: &str| -> Api<DynamicObject> {
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind));
            Api::namespaced_with(world.client.clone(), work.name(), &kind)
        };
        let (united, sets) = (objects("UnitedDeployment"), objects("CloneSet"));
        let labels = json!({"app": "web"});
        let container = json!({"name": "main", "image": "nginx:1"});
        let pod = json!({"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}});
        let set = json!({"selector": {"matchLabels": labels}, "template": pod});
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 4, "selector": {"matchLabels": labels},
                "template": {"cloneSetTemplate": {"metadata": {"labels": labels}, "spec": set}},
                "topology": {"subsets": [{"name": "a"}, {"name": "b"}]},
            },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        eventually(PATIENCE, "the kind is served", || async {
            united.create(&PostParams::default(), &object).await?;
            Ok(())
        })
        .await;
        let faults = Faults::new(1);
        let controllers = Controllers::start(work.name(), &faults).await;
        let this = Self {
            case,
            work,
            united,
            sets,
            faults,
            controllers,
        };
        this.status(4).await;
        this
    }

    /// Makes the change; the controllers die with a write after it, or do not. How many writes it took.
    async fn run(self, crash_after: Option<u64>) -> u64 {
        let before = self.faults.writes();
        if let Some(write) = crash_after {
            self.faults.crash_after_writes(before + write);
        }
        let change = Patch::Merge(&self.case.change);
        self.united
            .patch("web", &PatchParams::default(), &change)
            .await
            .unwrap();
        tokio::select! {
            () = self.faults.until_crashed() => {}
            () = self.comes_to_its_end(crash_after) => {}
        }
        let writes = self.faults.writes() - before;
        if crash_after.is_some() {
            self.crashes().await;
            let successor = Controllers::start(self.work.name(), &Faults::new(2)).await;
            self.comes_to_its_end(crash_after).await;
            successor.stop().await;
        }
        self.controllers.stop().await;
        writes
    }

    /// A run may need a write less than the first one did, when two reports of the status become one. Then the object is changed in a way that asks for
    /// nothing but another report, until the crash has happened.
    async fn crashes(&self) {
        for limit in 11.. {
            if self.faults.crashed() {
                return;
            }
            let change = Patch::Merge(json!({"spec": {"revisionHistoryLimit": limit}}));
            let params = PatchParams::default();
            self.united.patch("web", &params, &change).await.unwrap();
            tokio::select! {
                () = self.faults.until_crashed() => {}
                () = self.status(self.case.shares.values().sum()) => {}
            }
        }
    }

    async fn comes_to_its_end(&self, crash_after: Option<u64>) {
        self.status(self.case.shares.values().sum()).await;
        eventually(PATIENCE, &format!("all is well after {crash_after:?}"), || async {
            let sets = self.sets.list(&ListParams::default()).await?.items;
            let mut shares: Vec<(String, i64, String)> = sets
                .iter()
                .map(|set| {
                    let subset = set
                        .metadata
                        .labels
                        .as_ref()
                        .and_then(|labels| labels.get(SUBSET).cloned());
                    let spec = &set.data["spec"];
                    let image = spec["template"]["spec"]["containers"][0]["image"]
                        .as_str()
                        .unwrap_or_default();
                    let replicas = spec["replicas"].as_i64().unwrap_or_default();
                    (subset.unwrap_or_default(), replicas, image.to_owned())
                })
                .collect();
            shares.sort();
            let image = self.case.image.to_owned();
            let wanted = self.case.shares.iter();
            let wanted: Vec<_> = wanted
                .map(|(name, count)| ((*name).to_owned(), *count, image.clone()))
                .collect();
            (shares == wanted)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{shares:?} is not {wanted:?}")))
        })
        .await;
    }

    async fn status(&self, replicas: i64) {
        eventually(PATIENCE, "all Pods are there and updated", || async {
            let united = self.united.get("web").await?;
            let status = &united.data["status"];
            let seen = status["observedGeneration"].as_i64() == united.metadata.generation;
            let counts = ["replicas", "readyReplicas", "updatedReadyReplicas"];
            (seen && counts.iter().all(|count| status[count] == replicas))
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{status:#}")))
        })
        .await;
    }
}
