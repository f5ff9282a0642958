//! A model of everybody who writes to the ledger of a subset: in no order of events has it more Pods than it may.
//!
//! Pods keep their names when they are replaced, which is the hardest case. Two replicas of the webhook answer from copies of any age; the leader's picture of the
//! Pods may be old as well. What was let in happens later, or never; what was let go happens. Time goes in steps, and a request is under way, and the leader's
//! watch behind, for less than one.

use std::collections::{BTreeMap, HashSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::names::object::VERSION_IGNORED;
use kruise_api::pod::Pod;
use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread};
use serde_json::json;

use super::assign::Assigned;
use super::ledger::{self, Answer, Ask, Leave};
use super::status;

/// Ages are not told apart beyond this.
const OLD: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    None,
    /// In the first subset, or in the other, and for how long.
    Active(bool, u8),
    Going,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Granted {
    Create(bool),
    Delete,
}

/// What is stored of the first subset; nothing when the version has no ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored<const N: usize> {
    replicas: i32,
    missing: i32,
    creating: [Option<u8>; N],
    deleting: [Option<u8>; N],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World<const N: usize> {
    pods: [Life; N],
    /// What the controller knows of the Pods.
    seen: [Life; N],
    ledger: Option<Stored<N>>,
    /// What each replica of the webhook knows of the ledger.
    copies: [Option<Stored<N>>; 2],
    /// What was granted and has not happened.
    granted: [Option<(Granted, u8)>; N],
}

struct Model {
    now: Timestamp,
    /// Seconds of a step.
    tick: i64,
    most: i32,
}

impl Model {
    fn start<const N: usize>() -> World<N> {
        World {
            pods: [Life::None; N],
            seen: [Life::None; N],
            ledger: None,
            copies: [None, None],
            granted: [None; N],
        }
    }

    fn ago(&self, age: u8) -> Timestamp {
        self.now - SignedDuration::from_secs(self.tick * i64::from(age))
    }

    fn object<const N: usize>(&self, stored: Option<&Stored<N>>) -> WorkloadSpread {
        let mut spread: WorkloadSpread = serde_json::from_value(json!({
            "metadata": {"name": "spread", "namespace": "ns", "uid": "u"},
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
                "subsets": [{"name": "a", "maxReplicas": self.most}, {"name": "b"}]},
            "status": {},
        }))
        .unwrap();
        if let Some(stored) = stored {
            let times = |ages: &[Option<u8>; N]| -> BTreeMap<String, Time> {
                let known = ages.iter().enumerate().filter_map(|(slot, age)| Some((slot, (*age)?)));
                known.map(|(slot, age)| (name(slot), Time(self.ago(age)))).collect()
            };
            let first = SubsetStatus {
                name: "a".to_owned(),
                replicas: stored.replicas,
                missing_replicas: stored.missing,
                creating_pods: times(&stored.creating),
                deleting_pods: times(&stored.deleting),
                ..SubsetStatus::default()
            };
            let second = SubsetStatus {
                name: "b".to_owned(),
                missing_replicas: -1,
                ..SubsetStatus::default()
            };
            let lists = &mut spread.status.as_mut().unwrap().versioned_subset_statuses;
            lists.insert(VERSION_IGNORED.to_owned(), vec![first, second]);
        }
        spread
    }

    fn stored<const N: usize>(&self, list: &[SubsetStatus]) -> Stored<N> {
        let first = &list[0];
        let ages = |times: &BTreeMap<String, Time>| {
            std::array::from_fn(|slot| {
                let age = self.now.duration_since(times.get(&name(slot))?.0).as_secs() / self.tick;
                Some(u8::try_from(age).unwrap().min(OLD))
            })
        };
        Stored {
            replicas: first.replicas,
            missing: first.missing_replicas,
            creating: ages(&first.creating_pods),
            deleting: ages(&first.deleting_pods),
        }
    }

    fn written<const N: usize>(&self, spread: &WorkloadSpread, entry: &ledger::Entry) -> Stored<N> {
        self.stored(&entry.written(spread.status.as_ref()).versioned_subset_statuses[VERSION_IGNORED])
    }

    fn ask<const N: usize>(&self, world: &World<N>, replica: usize, slot: usize) -> World<N> {
        let ask = Ask {
            namespace: "ns".to_owned(),
            spread: "spread".to_owned(),
            version: VERSION_IGNORED.to_owned(),
            pod: name(slot),
        };
        let decide = |stored: Option<&Stored<N>>| {
            let spread = self.object(stored);
            let answer = ledger::place(&spread, &ask, "id", None, self.now).unwrap();
            (spread, answer)
        };
        let mut next = world.clone();
        let (mut spread, mut answer) = decide(world.copies[replica].as_ref());
        // What was decided by an old copy cannot be written, and is decided again.
        if world.copies[replica] != world.ledger {
            (spread, answer) = decide(world.ledger.as_ref());
            next.copies[replica] = world.ledger.clone();
        }
        let in_first = match answer {
            Answer::Take(entry) => {
                let in_first = entry.subset == "a";
                next.ledger = Some(self.written(&spread, &entry));
                next.copies[replica] = next.ledger.clone();
                in_first
            }
            Answer::Goes { subset, .. } => subset == "a",
            other => panic!("{other:?}"),
        };
        next.granted[slot] = Some((Granted::Create(in_first), 0));
        next
    }

    fn leave<const N: usize>(
        &self,
        world: &World<N>,
        replica: usize,
        slot: usize,
        in_first: bool,
        age: u8,
    ) -> World<N> {
        let pod = Leave {
            pod: name(slot),
            uid: String::new(),
            subset: if in_first { "a" } else { "b" }.to_owned(),
            version: VERSION_IGNORED.to_owned(),
            made: Some(self.ago(age)),
        };
        let decide = |stored: Option<&Stored<N>>| {
            let spread = self.object(stored);
            let entry = ledger::leave(&spread, &pod, self.now);
            (spread, entry)
        };
        let mut next = world.clone();
        let (mut spread, mut entry) = decide(world.copies[replica].as_ref());
        // Nor is anybody let go without a note for what only a copy says.
        if world.copies[replica] != world.ledger {
            (spread, entry) = decide(world.ledger.as_ref());
            next.copies[replica] = world.ledger.clone();
        }
        if let Some(entry) = entry {
            next.ledger = Some(self.written(&spread, &entry));
            next.copies[replica] = next.ledger.clone();
        }
        next.granted[slot] = Some((Granted::Delete, 0));
        next
    }

    fn reconcile<const N: usize>(&self, world: &World<N>) -> World<N> {
        let spread = self.object(world.ledger.as_ref());
        let pods: Vec<(Pod, bool)> = (0..N).filter_map(|slot| self.pod(slot, world.seen[slot])).collect();
        let assigned = |(pod, in_first): &'_ (Pod, bool)| (pod.clone(), usize::from(!in_first));
        let owned: Vec<(Pod, usize)> = pods.iter().map(assigned).collect();
        let assigned: Vec<Assigned<'_>> = owned
            .iter()
            .map(|(pod, subset)| Assigned {
                pod,
                subset: Some(*subset),
                is_new: false,
            })
            .collect();
        let lists = &spread.status.as_ref().unwrap().versioned_subset_statuses;
        let old = lists.get(VERSION_IGNORED).map(Vec::as_slice).unwrap_or_default();
        let counted = status::count(&spread, &[Some(self.most), None], old, &[], &assigned, self.now);
        let is_kept = !assigned.is_empty() || !counted.is_settled();
        World {
            ledger: is_kept.then(|| self.stored(&counted.list)),
            ..world.clone()
        }
    }

    /// The Pod of a slot, and whether it is in the first subset. Which one a Pod is in that goes makes no difference.
    fn pod(&self, slot: usize, life: Life) -> Option<(Pod, bool)> {
        let (in_first, age, is_going) = match life {
            Life::None => return None,
            Life::Active(in_first, age) => (in_first, age, false),
            Life::Going => (true, OLD, true),
        };
        let made = self.ago(age).to_string();
        let mut pod =
            json!({"metadata": {"name": name(slot), "namespace": "ns", "uid": "u", "creationTimestamp": made}});
        if is_going {
            pod["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        }
        Some((serde_json::from_value(pod).unwrap(), in_first))
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
            add(&|next| next.copies[replica] = next.ledger.clone());
        }
        for slot in 0..N {
            match world.granted[slot] {
                Some((Granted::Create(in_first), _)) => {
                    add(&|next| next.granted[slot] = None);
                    add(&|next| {
                        next.granted[slot] = None;
                        next.pods[slot] = Life::Active(in_first, 0);
                    });
                }
                Some((Granted::Delete, _)) => add(&|next| {
                    next.granted[slot] = None;
                    next.pods[slot] = Life::Going;
                }),
                None => {}
            }
            if world.pods[slot] == Life::Going {
                add(&|next| next.pods[slot] = Life::None);
            }
        }
        let is_due = world.granted.iter().flatten().any(|(_, age)| *age > 0);
        if !is_due && world.seen == world.pods {
            add(&|next| pass(next));
        }
        for replica in 0..2 {
            for slot in (0..N).filter(|slot| world.granted[*slot].is_none()) {
                match world.pods[slot] {
                    Life::None => all.push(self.ask(world, replica, slot)),
                    Life::Active(in_first, age) => all.push(self.leave(world, replica, slot, in_first, age)),
                    Life::Going => {}
                }
            }
        }
        all
    }

    fn check<const N: usize>(&self, world: &World<N>) {
        // One that was let go does not count: its place is another's already.
        let stays = |slot: &usize| !matches!(world.granted[*slot], Some((Granted::Delete, _)));
        let in_first = (0..N).filter(|slot| matches!(world.pods[*slot], Life::Active(true, _)));
        let count = in_first.filter(stays).count();
        assert!(i32::try_from(count).unwrap() <= self.most, "{world:#?}");
    }
}

fn pass<const N: usize>(world: &mut World<N>) {
    let older = |age: &mut u8| *age = (*age + 1).min(OLD);
    for life in world.pods.iter_mut().chain(&mut world.seen) {
        if let Life::Active(_, age) = life {
            older(age);
        }
    }
    world.granted.iter_mut().flatten().for_each(|(_, age)| older(age));
    let [one, other] = &mut world.copies;
    for stored in [&mut world.ledger, one, other].into_iter().flatten() {
        stored
            .creating
            .iter_mut()
            .chain(&mut stored.deleting)
            .flatten()
            .for_each(older);
    }
}

fn name(slot: usize) -> String {
    format!("web-{slot}")
}

fn model(tick: i64, most: i32) -> Model {
    Model {
        now: "2024-05-01T10:00:00Z".parse().unwrap(),
        tick,
        most,
    }
}

#[test]
fn given_two_pods_and_one_place_then_none_of_the_nearest_states_has_both_in_it() {
    // Entries are forgotten after one step, and after two. A request is under way for one at most.
    let model = model(16, 1);
    let start = Model::start::<2>();
    let mut known = HashSet::from([start.clone()]);
    let mut rest = VecDeque::from([start]);
    while let Some(world) = rest.pop_front().filter(|_| known.len() < 60_000) {
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
fn given_more_pods_then_none_of_many_random_orders_has_too_many_in_the_subset() {
    let mut ids = crate::plan::IdSource::seeded(11);
    let mut fullest = 0;
    for (tick, most, walks) in [(7, 2, 250), (16, 1, 150)] {
        let model = model(tick, most);
        for _ in 0..walks {
            let mut world = Model::start::<4>();
            for _ in 0..150 {
                let mut all = model.next(&world);
                let chosen = usize::try_from(ids.below(all.len() as u64)).unwrap();
                world = all.swap_remove(chosen);
                model.check(&world);
                let active = world.pods.iter().filter(|life| matches!(life, Life::Active(true, _)));
                fullest = fullest.max(active.count());
            }
        }
    }
    assert!(fullest >= 2, "the subset is never full: the model does nothing");
}
