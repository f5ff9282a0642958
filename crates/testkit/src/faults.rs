//! Bad days for a program under test: what networks, servers and sudden ends do to a client, by script.
//!
//! [`Faults`] sits between kube's client and the API server. Give the program under test a client made here, say what should go wrong,
//! and look at what it did. Chance comes from a seed, so a failure can be repeated.
//!
//! - [`Faults::inject`] makes chosen calls fail: refused by the server, applied with the answer lost, late, or never answered.
//! - [`Faults::crash_after_writes`] ends the program's world after its n-th write: the write happens, its answer does not arrive, and nothing
//!   works afterwards. Start the program anew with new `Faults`, as the kubelet would.
//! - [`Faults::cut_watches`], [`Faults::hold_watches`] and [`Faults::delay_watches`] disturb what the program sees.
//! - [`Faults::calls`] counts what reached the server, by verb and resource.
//!
//! ```no_run
//! # use kruise_testkit::faults::{Fault, Faults, When};
//! # async fn example() {
//! let faults = Faults::new(7);
//! let client = faults.client().await;
//! faults.inject(When::verb("create").on("pods").nth(3), Fault::LoseReply);
//! faults.inject(When::writes().with_probability(0.2), Fault::Refuse(409));
//! # drop(client);
//! # }
//! ```

mod call;
mod service;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster;
pub use service::FaultLayer;

use call::Call;

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server refuses it with this code and does nothing.
    Refuse(u16),
    /// The server does it, and the answer is lost.
    LoseReply,
    /// It takes that much longer.
    Delay(Duration),
    /// It goes into the void, as behind a load balancer that died silently: the server does nothing, and no answer ever comes.
    Unanswered,
}

/// Which calls go wrong: all of the conditions have to hold.
#[derive(Clone, Debug)]
pub struct When {
    verbs: Vec<&'static str>,
    resource: Option<String>,
    nth: Option<u64>,
    times: Option<u64>,
    probability: f64,
}

const WRITES: [&str; 6] = ["create", "delete", "deletecollection", "evict", "patch", "update"];

impl When {
    /// Every call.
    pub fn any() -> Self {
        Self {
            verbs: Vec::new(),
            resource: None,
            nth: None,
            times: None,
            probability: 1.0,
        }
    }

    /// Calls that write.
    pub fn writes() -> Self {
        Self {
            verbs: WRITES.to_vec(),
            ..Self::any()
        }
    }

    /// `get`, `list`, `watch`, `create`, `patch`, `update`, `delete`, `deletecollection` or `evict`.
    pub fn verb(verb: &'static str) -> Self {
        Self {
            verbs: vec![verb],
            ..Self::any()
        }
    }

    /// Only this resource: `pods`, or `pods/status`.
    #[must_use]
    pub fn on(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only the n-th such call, counted from 1.
    #[must_use]
    pub fn nth(mut self, number: u64) -> Self {
        self.nth = Some(number);
        self
    }

    /// Not more often than this.
    #[must_use]
    pub fn times(mut self, number: u64) -> Self {
        self.times = Some(number);
        self
    }

    /// Only by chance, from 0 to 1.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn fits(&self, call: &Call) -> bool {
        let verb = self.verbs.is_empty() || self.verbs.contains(&call.verb);
        verb && self.resource.as_ref().is_none_or(|resource| *resource == call.resource)
    }
}

/// How a watch ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection is closed; the program may resume where it was.
    Closed,
    /// The server says that it has forgotten that version (410); the program has to list again.
    Expired,
}

/// The faults of one program. Clones are the same.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    control: tokio::sync::watch::Sender<watch::Control>,
}

struct State {
    chance: fastrand::Rng,
    rules: Vec<Rule>,
    calls: BTreeMap<(String, String), u64>,
    writes: u64,
    crash_after: Option<u64>,
    crashed: bool,
}

struct Rule {
    when: When,
    fault: Fault,
    fitted: u64,
    happened: u64,
}

/// What is to become of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    Goes(Fault),
    /// It is the last one: it reaches the server and nothing comes back.
    Crashes,
    /// There is no program any more that could call.
    Dead,
}

impl Faults {
    /// No faults yet. The seed decides about chance.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                chance: fastrand::Rng::with_seed(seed),
                rules: Vec::new(),
                calls: BTreeMap::new(),
                writes: 0,
                crash_after: None,
                crashed: false,
            }),
            control: tokio::sync::watch::Sender::default(),
        }))
    }

    /// A client of the test's control plane that suffers these faults.
    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(cluster::kubeconfig()).expect("a readable kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        self.client_of(config.expect("a usable kubeconfig"))
    }

    /// A client of any server that suffers these faults. kube's own retries are off, as they are in the product.
    pub fn client_of(&self, mut config: Config) -> Client {
        config.default_retry = false;
        let builder = ClientBuilder::try_from(config).expect("a client");
        builder.with_layer(&self.layer()).build()
    }

    /// The layer, for clients that are built elsewhere.
    pub fn layer(&self) -> FaultLayer {
        FaultLayer::new(self.clone())
    }

    /// Lets calls fail from now on.
    pub fn inject(&self, when: When, fault: Fault) {
        self.state().rules.push(Rule {
            when,
            fault,
            fitted: 0,
            happened: 0,
        });
    }

    /// Takes all injected faults back.
    pub fn heal(&self) {
        self.state().rules.clear();
        self.0.control.send_modify(watch::Control::calm);
    }

    /// Ends the program's world with its n-th write from the beginning, counted from 1.
    pub fn crash_after_writes(&self, number: u64) {
        self.state().crash_after = Some(number);
    }

    /// Ends the program's world now.
    pub fn crash(&self) {
        self.state().crashed = true;
        self.0.control.send_modify(|control| control.crashed = true);
    }

    /// Whether the program's world has ended.
    pub fn crashed(&self) -> bool {
        self.state().crashed
    }

    /// Resolves when the program's world has ended and the server works on nothing of it any more. A successor that begins earlier may miss
    /// what is still under way; real ones are kept apart by the lease.
    pub async fn until_crashed(&self) {
        let mut control = self.0.control.subscribe();
        // The sender is ours.
        let _ = control
            .wait_for(|control| control.crashed && control.under_way == 0)
            .await;
    }

    /// Ends the watches that are open now: those of a resource, or all.
    pub fn cut_watches(&self, resource: Option<&str>, cut: Cut) {
        self.0.control.send_modify(|control| control.cut(resource, cut));
    }

    /// Holds back what watches tell, until [`Faults::release_watches`].
    pub fn hold_watches(&self) {
        self.0.control.send_modify(|control| control.held = true);
    }

    /// Lets watches tell what was held back.
    pub fn release_watches(&self) {
        self.0.control.send_modify(|control| control.held = false);
    }

    /// Lets everything that watches tell arrive late by this time.
    pub fn delay_watches(&self, delay: Duration) {
        self.0.control.send_modify(|control| control.delay = delay);
    }

    /// How many calls reached the server, by verb and resource.
    pub fn calls(&self) -> BTreeMap<(String, String), u64> {
        self.state().calls.clone()
    }

    /// How many calls of a verb on a resource reached the server.
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        let key = (verb.to_owned(), resource.to_owned());
        self.state().calls.get(&key).copied().unwrap_or(0)
    }

    /// How many writes reached the server.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// How many calls reached the server that do not write.
    pub fn reads(&self) -> u64 {
        let state = self.state();
        state.calls.values().sum::<u64>() - state.writes
    }

    fn fate(&self, call: &Call) -> Fate {
        let mut state = self.state();
        let fate = state.fate(call);
        let reaches = !matches!(fate, Fate::Dead | Fate::Goes(Fault::Refuse(_) | Fault::Unanswered));
        if reaches {
            let key = (call.verb.to_owned(), call.resource.clone());
            *state.calls.entry(key).or_default() += 1;
            if WRITES.contains(&call.verb) {
                state.writes += 1;
                if state.crash_after.is_some_and(|last| state.writes >= last) {
                    state.crashed = true;
                    drop(state);
                    self.0.control.send_modify(|control| control.crashed = true);
                    return Fate::Crashes;
                }
            }
        }
        fate
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fate(&mut self, call: &Call) -> Fate {
        if self.crashed {
            return Fate::Dead;
        }
        for rule in &mut self.rules {
            if !rule.when.fits(call) {
                continue;
            }
            rule.fitted += 1;
            let due = rule.when.nth.is_none_or(|nth| nth == rule.fitted)
                && rule.when.times.is_none_or(|times| rule.happened < times)
                && self.chance.f64() < rule.when.probability;
            if due {
                rule.happened += 1;
                return Fate::Goes(rule.fault);
            }
        }
        Fate::Passes
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}
