//! The controllers die after any of their writes for a job; their successors bring it to the same end.
//!
//! A case runs once without a crash, and then with a crash after some of its writes, or after each of them in a run of torture, side by side.

mod broadcast;
mod cron;
mod ephemeral;

use std::time::Duration;

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
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use super::{chart::Kinds, controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 6;
/// Crashes in an ordinary run.
const SAMPLE: u64 = 6;

/// A job and what has to come of it.
trait Case: Send + Sync + 'static {
    /// What is watched from before the job to the end of all.
    type Watch: Send + Sync;

    const NAME: &'static str;
    const NODES: usize;
    /// So many writes there are in any case.
    const WRITES: u64;

    /// Puts there what the job needs.
    fn prepare(&self, at: &Attempt<'_>) -> impl Future<Output = Self::Watch> + Send;

    /// Makes the job.
    fn submit(&self, at: &Attempt<'_>) -> impl Future<Output = ()> + Send;

    /// Does what a user does meanwhile.
    fn act(&self, _: &Attempt<'_>) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Whether all is as it should be in the end.
    fn is_done(&self, at: &Attempt<'_>, watch: &Self::Watch) -> impl Future<Output = Result<(), NotYet>> + Send;

    /// Fails when something has happened that must not.
    fn judge(&self, at: &Attempt<'_>, watch: Self::Watch, crash_after: Option<u64>) -> impl Future<Output = ()> + Send;
}

/// One run of a case, and where it takes place.
struct Attempt<'a> {
    world: &'a World,
    nodes: &'a SimulatedNodes,
    /// Label of the nodes.
    set: &'a str,
    work: FreshNamespace,
}

impl<'a> Attempt<'a> {
    async fn new(world: &'a World, nodes: &'a SimulatedNodes, set: &'a str) -> Self {
        Self {
            world,
            nodes,
            set,
            work: namespace::fresh(&world.client, set).await.unwrap(),
        }
    }

    fn jobs(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, kind));
        Api::namespaced_with(self.world.client.clone(), self.work.name(), &kind)
    }

    async fn create(&self, version: &str, kind: &str, spec: &Value) {
        let api_version = format!("apps.kruise.io/{version}");
        let job = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "job"}, "spec": spec});
        let job: DynamicObject = serde_json::from_value(job).unwrap();
        let jobs = self.jobs(version, kind);
        jobs.create(&PostParams::default(), &job).await.unwrap();
    }
}

fn crash_after_any_write<C: Case>(case: C) {
    run_test(torture::deadline(Duration::from_mins(10)), async move {
        let set = format!("crash-{}", C::NAME);
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), &set).await;
        let options = SimOptions {
            count: C::NODES,
            name_prefix: set.clone(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let writes = run(&case, &Attempt::new(&world, &nodes, &set).await, None).await;
        assert!(writes >= C::WRITES, "{writes}");
        let (case, world, there, set) = (&case, &world, &nodes, &*set);
        let crashes = stream::iter(torture::sample(1, C::WRITES, SAMPLE));
        let attempts =
            crashes.map(|write| async move { run(case, &Attempt::new(world, there, set).await, Some(write)).await });
        attempts.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        nodes.stop().await.unwrap();
    });
}

/// Runs a job to its end, with a crash on the way or without. How many writes it took.
async fn run<C: Case>(case: &C, at: &Attempt<'_>, crash_after: Option<u64>) -> u64 {
    let watch = case.prepare(at).await;
    let faults = Faults::new(1);
    if let Some(write) = crash_after {
        faults.crash_after_writes(write);
    }
    let controllers = Controllers::start(at.work.name(), &faults).await;
    case.submit(at).await;
    let goes_on = async {
        if crash_after.is_some() {
            faults.until_crashed().await;
            let successor = Controllers::start(at.work.name(), &Faults::new(2)).await;
            ends(case, at, &watch, crash_after).await;
            successor.stop().await;
        } else {
            ends(case, at, &watch, crash_after).await;
        }
    };
    tokio::join!(goes_on, case.act(at));
    let writes = faults.writes();
    controllers.stop().await;
    case.judge(at, watch, crash_after).await;
    writes
}

async fn ends<C: Case>(case: &C, at: &Attempt<'_>, watch: &C::Watch, crash_after: Option<u64>) {
    let what = format!("all is well after {crash_after:?}");
    eventually(PATIENCE, &what, || case.is_done(at, watch)).await;
}
