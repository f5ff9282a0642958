//! Running scenarios: what users see, on a real API server with one manager and one set of simulated nodes that all scenarios of a target share.
//!
//! A scenario has a namespace of its own and runs beside many others: it waits far more than it works. Each kind has a target: to add one, write a module below
//! `tests/scenarios` and a file `tests/scenarios_….rs` like the others, and name that in `Cargo.toml`. What needs a manager of its own is in the targets `cluster` and
//! `faults`.

mod daemon;
pub(crate) mod pod_history;
pub(crate) mod recorded;
mod stage;

use std::{process::ExitCode, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kruise_testkit::{
    cluster,
    eventually::run_test,
    faults::Faults,
    sim::{SimOptions, SimulatedNodes},
};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{runtime::Handle, sync::OnceCell, time::timeout};

use self::daemon::Daemons;
pub(crate) use self::stage::Stage;
use super::{
    chart::Kinds,
    world::{Replica, World},
};

/// They mostly wait.
const AT_ONCE: usize = 12;
/// For one scenario, and for all of them.
const DEADLINE: Duration = Duration::from_mins(5);
/// For one thing to happen, while many others do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const DEADLINE_OF_ALL: Duration = Duration::from_mins(14);
/// Gates that change nothing for those who do not ask for what they allow.
const GATES: &str = "--feature-gates=CloneSetPartitionRollback=true,InPlaceWorkloadVerticalScaling=true,\
                     PreDownloadImageForInPlaceUpdate=true,SidecarTerminator=true";

/// A test with its name.
pub(crate) struct Scenario {
    name: String,
    run: Box<dyn FnOnce(Arc<Stage>) -> BoxFuture<'static, ()> + Send>,
}

/// The scenarios of this module, by the names of their functions.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::cluster::scenario::scenario(module_path!(), stringify!($name), $name)),*]
    };
}
pub(crate) use scenarios;

pub(crate) fn scenario<P: Future<Output = ()> + Send + 'static>(
    module: &str,
    name: &str,
    run: impl FnOnce(Arc<Stage>) -> P + Send + 'static,
) -> Scenario {
    let module = module.split_once("::scenarios::");
    Scenario {
        name: format!("{}::{name}", module.map_or("", |(_, module)| module)),
        run: Box::new(|stage| Box::pin(run(stage))),
    }
}

/// What scenarios share: a manager that leads, and nodes.
struct SharedManager {
    world: World,
    replica: Replica,
    nodes: SimulatedNodes,
    daemons: Daemons,
}

impl SharedManager {
    async fn start(gates: &str) -> Self {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "scenarios").await;
        // Nobody else stands for election, and on a busy machine a lease of seconds is soon lost.
        let flags = [gates, "--nodeimage-creation-delay=1s", "--enable-leader-election=false"];
        let replica = world.start_with(&Faults::new(1), &flags);
        world.publish(&replica).await;
        replica.leads().await;
        world.all_trust().await;
        let zone = |name: &str| [("topology.kubernetes.io/zone".to_owned(), name.to_owned())].into();
        let options = SimOptions {
            count: 4,
            name_prefix: "scenarios".to_owned(),
            labels_in_turn: vec![zone("a"), zone("b")],
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let daemons = Daemons::start(world.client.clone());
        Self {
            world,
            replica,
            nodes,
            daemons,
        }
    }

    async fn stop(self) {
        self.daemons.stop().await;
        self.nodes.stop().await.unwrap();
        self.world.stop(self.replica).await;
    }
}

/// Runs the scenarios of a kind.
pub(crate) fn run(kind: &'static str, all: Vec<Scenario>) -> ExitCode {
    run_gated(kind, GATES, all)
}

/// The same, with a `--feature-gates` flag of the target's own.
pub(crate) fn run_gated(kind: &'static str, gates: &'static str, mut all: Vec<Scenario>) -> ExitCode {
    // As other tests: so it can be told how long each takes.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(AT_ONCE);
    run_test(DEADLINE_OF_ALL, async move {
        let shared: Arc<OnceCell<SharedManager>> = Arc::default();
        let handle = Handle::current();
        let trials = all.into_iter().map(|scenario| {
            let (shared, handle) = (shared.clone(), handle.clone());
            Trial::test(scenario.name.clone(), move || {
                run_one(kind, gates, scenario, shared, &handle)
            })
        });
        let trials = trials.collect();
        let all = tokio::task::spawn_blocking(move || libtest_mimic::run(&args, trials));
        let failed = all.await.unwrap().has_failed();
        if let Some(shared) = Arc::into_inner(shared).and_then(OnceCell::into_inner) {
            shared.stop().await;
        }
        assert!(!failed, "scenarios failed");
    });
    ExitCode::SUCCESS
}

/// Runs one scenario; the first of all starts the manager.
fn run_one(
    kind: &str,
    gates: &'static str,
    scenario: Scenario,
    shared: Arc<OnceCell<SharedManager>>,
    handle: &Handle,
) -> Result<(), Failed> {
    let Scenario { name, run } = scenario;
    let kind = kind.to_owned();
    let ended = handle.spawn(async move {
        shared.get_or_init(|| SharedManager::start(gates)).await;
        let stage = Arc::new(Stage::new(shared, &kind, &name).await);
        let ended = timeout(DEADLINE, run(stage.clone())).await;
        stage.clear().await;
        ended
    });
    match handle.block_on(ended) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(format!("it did not end within {DEADLINE:?}").into()),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
