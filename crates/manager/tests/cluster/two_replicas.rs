//! Two replicas of the webhook answer evictions as fast as clients can ask. The budget holds at every moment.
//!
//! The API server tells every change of a Pod; after each of them the Pods that are available are counted. An ordinary run takes a small set and ends when some of
//! its Pods have gone; a run of torture takes 500 Pods and goes on until none of them is left.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    sim::{SimOptions, SimulatedNodes},
    torture,
    watch::{self, Event},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, EvictParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use super::world::World;

const PATIENCE: Duration = Duration::from_mins(2);
const CLIENTS: usize = 4;
/// Requests of each client that are under way.
const AT_ONCE: usize = 4;
/// Requests that a replica has answered.
const ANSWERED: &str = "controller_runtime_webhook_requests_total";

#[test]
fn given_four_clients_and_two_replicas_then_there_are_never_fewer_pods_than_the_budget_says() {
    run_test(torture::deadline(Duration::from_mins(5)), async {
        let (replicas, enough) = if torture::is_on() { (500, 500) } else { (40, 16) };
        let floor = replicas - replicas / 10;
        let world = World::new("two-replicas").await;
        let (one, other) = (world.ready(&Faults::new(1)).await, world.ready(&Faults::new(2)).await);
        world.all_trust().await;
        let options = SimOptions {
            count: 8,
            name_prefix: "two-replicas".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let budgets: Api<PodUnavailableBudget> = world.work.api();
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
        let budget = json!({"metadata": {"name": "budget"}, "spec": {"targetRef": target, "maxUnavailable": "10%"}});
        budgets
            .create(&PostParams::default(), &serde_json::from_value(budget).unwrap())
            .await
            .unwrap();
        let set = cloneset("web").replicas(i32::try_from(replicas).unwrap());
        let set: DynamicObject = serde_json::from_value(set.json()).unwrap();
        let sets = world.objects("v1beta1", "CloneSet");
        sets.create(&PostParams::default(), &set).await.unwrap();
        let all =
            json!({"currentAvailable": replicas, "desiredAvailable": floor, "unavailableAllowed": replicas - floor});
        has_status(&budgets, &all).await;

        let pods: Api<Pod> = world.work.api();
        let before = [answered(&one).await, answered(&other).await];
        let watch = Available::watch(pods.clone()).await;
        let names = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items;
        let left: Mutex<VecDeque<String>> = Mutex::new(names.iter().map(ResourceExt::name_any).collect());
        let gone = AtomicUsize::new(0);
        let clients = (0..CLIENTS * AT_ONCE).map(|_| evict(&pods, &left, &gone, enough));
        join_all(clients).await;
        has_status(&budgets, &all).await;
        let fewest = watch.end().await;
        assert!(
            fewest >= floor,
            "{fewest} of {replicas} were available, {floor} have to be"
        );
        assert!(fewest < replicas, "nobody was evicted");
        let after = [answered(&one).await, answered(&other).await];
        assert!(
            after[0] > before[0] && after[1] > before[1],
            "both were asked: {before:?}, {after:?}"
        );
        nodes.stop().await.unwrap();
        world.stop(one).await;
        world.stop(other).await;
    });
}

/// Evicts Pods until enough have gone. Those that are refused are tried again after the others.
async fn evict(pods: &Api<Pod>, left: &Mutex<VecDeque<String>>, gone: &AtomicUsize, enough: usize) {
    while gone.load(Ordering::Relaxed) < enough {
        // Without one the others have the rest.
        let Some(pod) = left.lock().unwrap().pop_front() else {
            return;
        };
        match pods.evict(&pod, &EvictParams::default()).await {
            Ok(_) => drop(gone.fetch_add(1, Ordering::Relaxed)),
            Err(kube::Error::Api(status)) if status.code == 404 => drop(gone.fetch_add(1, Ordering::Relaxed)),
            Err(kube::Error::Api(status)) if [403, 409, 429].contains(&status.code) => {
                left.lock().unwrap().push_back(pod);
            }
            Err(error) => panic!("{pod}: {error}"),
        }
    }
}

async fn has_status(budgets: &Api<PodUnavailableBudget>, expected: &Value) {
    eventually(PATIENCE, "the budget is counted", || async {
        let status = json!(budgets.get("budget").await?.status);
        let fields = expected.as_object().unwrap();
        if fields.iter().all(|(field, value)| status[field] == *value) {
            Ok(())
        } else {
            Err(NotYet::new(format!("{expected} is not in {status:#}")))
        }
    })
    .await;
}

async fn answered(replica: &super::world::Replica) -> f64 {
    replica.sum(ANSWERED).await.unwrap_or_default()
}

/// How many Pods are available, after each change.
struct Available {
    fewest: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Available {
    /// Begins with what is there when this returns.
    async fn watch(pods: Api<Pod>) -> Self {
        let fewest = Arc::new(AtomicUsize::new(usize::MAX));
        let (tell, begun) = oneshot::channel();
        let seen = fewest.clone();
        let task = tokio::spawn(async move {
            let mut tell = Some(tell);
            let mut available: BTreeMap<String, bool> = BTreeMap::new();
            let events = watch::events_labelled(pods, "app=web");
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let is_listing = matches!(event, Ok(Event::Init | Event::InitApply(_)));
                match event {
                    Ok(Event::Init) => available.clear(),
                    Ok(Event::InitDone) => drop(tell.take().map(|tell| tell.send(()))),
                    Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                        available.insert(pod.name_any(), is_available(&pod));
                    }
                    Ok(Event::Delete(pod)) => drop(available.remove(&pod.name_any())),
                    Err(_) => {}
                }
                if !is_listing {
                    seen.fetch_min(available.values().filter(|is| **is).count(), Ordering::Relaxed);
                }
            }
        });
        begun.await.unwrap();
        Self { fewest, task }
    }

    /// Returns the fewest that there ever were.
    async fn end(self) -> usize {
        self.task.abort();
        let _ = self.task.await;
        self.fewest.load(Ordering::Relaxed)
    }
}

fn is_available(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
