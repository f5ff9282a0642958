//! A model of everybody who asks a budget and writes to it: no order of events has too few Pods available.
//!
//! Pods keep their names when they are replaced, which is the hardest case. Two replicas of the webhook answer from copies of the budget of any age, one of
//! them the leader's controller, whose picture of the Pods may be old as well. An operation that was granted happens later, or never; the API server asks again
//! when the Pod has changed before it happens. A replica may die right after it wrote a place down, which nobody hears of then. Time goes in steps of seven seconds: a
//! request is under way, and the leader's watch behind, for less than one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::gates::Gates;
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use kruise_api::shared::IntOrPercent;
use serde_json::json;

use super::counts::Counts;
use super::ledger::{self, Answer, Asked, Operation};
use super::status;
use crate::plan::Env;

const TICK: i64 = 7;
/// Ages are not told apart beyond this.
const OLD: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Ready,
    Unready,
    Deleting,
}

/// A Pod, and for how many ticks it has been there.
type ModelPod = (Life, u8);

/// A budget as it is stored: places that are left, and the age of those that are taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored<const N: usize> {
    allowed: i32,
    disrupted: [Option<u8>; N],
    updated: [Option<u8>; N],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World<const N: usize> {
    pods: [ModelPod; N],
    budget: Stored<N>,
    /// What the controller knows of the Pods.
    seen: [ModelPod; N],
    /// What each replica of the webhook knows of the budget.
    copies: [Stored<N>; 2],
    /// What was granted and has not happened.
    granted: [Option<(bool, u8)>; N],
}

struct Model {
    now: Timestamp,
    pods: HashMap<(usize, ModelPod), Arc<Pod>>,
    desired: i32,
}

impl Model {
    fn of<const N: usize>(max_unavailable: i32) -> (Self, World<N>) {
        let now: Timestamp = "2024-05-01T10:00:00Z".parse().unwrap();
        let mut pods = HashMap::new();
        for slot in 0..N {
            for life in [Life::Ready, Life::Unready, Life::Deleting] {
                for age in 0..=OLD {
                    pods.insert((slot, (life, age)), Arc::new(pod(slot, life, Self::ago(now, age))));
                }
            }
        }
        let start = (Life::Ready, OLD);
        let budget = Stored {
            allowed: max_unavailable,
            disrupted: [None; N],
            updated: [None; N],
        };
        let world = World {
            pods: [start; N],
            seen: [start; N],
            copies: [budget.clone(), budget.clone()],
            budget,
            granted: [None; N],
        };
        let desired = i32::try_from(N).unwrap() - max_unavailable;
        (Self { now, pods, desired }, world)
    }

    fn ago(now: Timestamp, age: u8) -> Timestamp {
        now - SignedDuration::from_secs(TICK * i64::from(age))
    }

    fn object<const N: usize>(&self, stored: &Stored<N>) -> PodUnavailableBudget {
        let places = |ages: &[Option<u8>; N]| -> BTreeMap<String, Time> {
            let taken = ages.iter().enumerate().filter_map(|(slot, age)| Some((slot, (*age)?)));
            taken
                .map(|(slot, age)| (name(slot), Time(Self::ago(self.now, age))))
                .collect()
        };
        let mut budget = PodUnavailableBudget::default();
        budget.metadata.name = Some("budget".to_owned());
        budget.spec.max_unavailable = Some(IntOrPercent::Int(1));
        budget.status = Some(PodUnavailableBudgetStatus {
            unavailable_allowed: stored.allowed,
            desired_available: self.desired,
            disrupted_pods: places(&stored.disrupted),
            unavailable_pods: places(&stored.updated),
            ..PodUnavailableBudgetStatus::default()
        });
        budget
    }

    fn stored<const N: usize>(&self, status: &PodUnavailableBudgetStatus) -> Stored<N> {
        let ages = |places: &BTreeMap<String, Time>| {
            std::array::from_fn(|slot| {
                let age = self.now.duration_since(places.get(&name(slot))?.0).as_secs() / TICK;
                Some(u8::try_from(age).unwrap().min(OLD))
            })
        };
        Stored {
            allowed: status.unavailable_allowed,
            disrupted: ages(&status.disrupted_pods),
            updated: ages(&status.unavailable_pods),
        }
    }

    /// Somebody asks a replica to disturb a Pod. The webhook is shown the Pod as it is.
    fn ask<const N: usize>(&self, world: &World<N>, replica: usize, slot: usize, is_update: bool) -> Option<World<N>> {
        let pod = &self.pods[&(slot, world.pods[slot])];
        let operation = if is_update {
            Operation::Update
        } else {
            Operation::Delete
        };
        let asked = Asked {
            operation,
            now: self.now,
            gates: Gates::default(),
        };
        let decide = |stored: &Stored<N>| ledger::answer(&self.object(stored), pod, &asked);
        let mut next = world.clone();
        let mut answer = decide(&world.copies[replica]);
        let is_current = world.copies[replica] == world.budget;
        // Nobody is refused, or let go for free, for what only a copy says; and what was decided by an old copy cannot be written.
        if !is_current && !matches!(answer, Answer::Granted) {
            answer = decide(&world.budget);
            next.copies[replica] = world.budget.clone();
        }
        match answer {
            Answer::Refused(_) => return None,
            Answer::Take(place) => {
                let status = self.object(&world.budget).status.unwrap();
                next.budget = self.stored(&place.written(status));
                next.copies[replica] = next.budget.clone();
            }
            Answer::Free(_) | Answer::Granted => {}
        }
        next.granted[slot] = Some((is_update, 0));
        Some(next)
    }

    fn reconcile<const N: usize>(&self, world: &World<N>) -> World<N> {
        let pods: Vec<Arc<Pod>> = (0..N)
            .map(|slot| self.pods[&(slot, world.seen[slot])].clone())
            .collect();
        let budget = self.object(&world.budget);
        let counts = Counts {
            total: i32::try_from(N).unwrap(),
            desired: self.desired,
        };
        let env = Env::at(self.now);
        let rebuilt = status::rebuild(&budget, &status::active(&pods), &BTreeSet::new(), counts, &env);
        World {
            budget: self.stored(&rebuilt.status),
            ..world.clone()
        }
    }

    fn next<const N: usize>(&self, world: &World<N>) -> Vec<World<N>> {
        let mut all = vec![self.reconcile(world)];
        let mut add = |change: &dyn Fn(&mut World<N>)| {
            let mut next = world.clone();
            change(&mut next);
            all.push(next);
        };
        add(&|next| next.seen = next.pods);
        for replica in 0..2 {
            add(&|next| next.copies[replica] = next.budget.clone());
        }
        for slot in 0..N {
            match world.pods[slot].0 {
                Life::Unready => add(&|next| {
                    next.pods[slot].0 = Life::Ready;
                    next.granted[slot] = None;
                }),
                Life::Deleting => add(&|next| {
                    next.pods[slot] = (Life::Unready, 0);
                    next.granted[slot] = None;
                }),
                Life::Ready => {}
            }
            if let Some((is_update, _)) = world.granted[slot] {
                add(&|next| next.granted[slot] = None);
                add(&|next| {
                    next.granted[slot] = None;
                    next.pods[slot].0 = if is_update { Life::Unready } else { Life::Deleting };
                });
            }
        }
        let is_due = world.granted.iter().flatten().any(|(_, age)| *age > 0);
        if !is_due && world.seen == world.pods {
            add(&|next| pass(next));
        }
        for replica in 0..2 {
            for slot in 0..N {
                if world.granted[slot].is_some() || world.pods[slot].0 == Life::Deleting {
                    continue;
                }
                let asked = [false, true].map(|update| self.ask(world, replica, slot, update));
                for asked in asked.into_iter().flatten() {
                    if asked.budget != world.budget {
                        // It dies with the answer.
                        all.push(World {
                            budget: asked.budget.clone(),
                            ..world.clone()
                        });
                    }
                    all.push(asked);
                }
            }
        }
        all
    }

    fn check<const N: usize>(&self, world: &World<N>) {
        let available = world.pods.iter().filter(|(life, _)| *life == Life::Ready).count();
        assert!(i32::try_from(available).unwrap() >= self.desired, "{world:#?}");
    }
}

fn pass<const N: usize>(world: &mut World<N>) {
    let older = |age: &mut u8| *age = (*age + 1).min(OLD);
    world
        .pods
        .iter_mut()
        .chain(&mut world.seen)
        .for_each(|(_, age)| older(age));
    world.granted.iter_mut().flatten().for_each(|(_, age)| older(age));
    let World {
        budget,
        copies: [one, other],
        ..
    } = world;
    for stored in [budget, one, other] {
        stored
            .disrupted
            .iter_mut()
            .chain(&mut stored.updated)
            .flatten()
            .for_each(older);
    }
}

fn name(slot: usize) -> String {
    format!("web-{slot}")
}

fn pod(slot: usize, life: Life, made: Timestamp) -> Pod {
    let ready = if life == Life::Unready { "False" } else { "True" };
    let mut pod = json!({
        "metadata": {"name": name(slot), "namespace": "shop", "uid": "u", "creationTimestamp": made.to_string()},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    });
    if life == Life::Deleting {
        pod["metadata"]["deletionTimestamp"] = json!(made.to_string());
    }
    serde_json::from_value(pod).unwrap()
}

#[test]
fn given_two_pods_then_no_order_of_events_has_fewer_available_than_the_budget_says() {
    let (model, start) = Model::of::<2>(1);
    let mut known = HashSet::from([start.clone()]);
    let mut rest = VecDeque::from([start]);
    while let Some(world) = rest.pop_front() {
        model.check(&world);
        for next in model.next(&world) {
            if known.insert(next.clone()) {
                rest.push_back(next);
            }
        }
    }
    assert!(
        known.len() > 1000,
        "only {} states: something cannot happen",
        known.len()
    );
}

#[test]
fn given_more_pods_then_none_of_many_random_orders_has_too_few_available() {
    let (model, start) = Model::of::<5>(2);
    let mut ids = crate::plan::IdSource::seeded(7);
    for _ in 0..300 {
        let mut world = start.clone();
        for _ in 0..200 {
            let mut all = model.next(&world);
            let chosen = usize::try_from(ids.below(all.len() as u64)).unwrap();
            world = all.swap_remove(chosen);
            model.check(&world);
        }
    }
}
