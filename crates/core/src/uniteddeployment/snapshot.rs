//! Everything that the decisions of one round look at, seen at the same time.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kruise_api::meta::Uid;
use kruise_api::names::condition::subset;
use kruise_api::names::condition::united_deployment as condition;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::shared::conditions::ConditionStatus;
use kruise_api::uniteddeployment::SubsetStatus;
use kruise_api::uniteddeployment::topology::{ScheduleStrategyType, Subset};
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;

use super::allocate::{Mode, Share, allocate};
use super::claims::Claims;
use super::render::Wanted;
use super::schedule::{Outlook, Patience, Rollout, with_reservation, without_reservation};
use super::template::{Template, WorkloadKind};
use super::{Observed, child::Existing, revisions};
use crate::plan::Env;
use crate::shared::availability::{is_active, is_ready};
use crate::shared::owner::Owner;
use crate::shared::revision::Revisions;
use crate::shared::selector;

/// One look at a UnitedDeployment.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) observed: &'a Observed,
    pub(super) united: &'a UnitedDeployment,
    pub(super) uid: Uid,
    pub(super) owner: &'a Owner,
    pub(super) env: &'a Env,
    pub(super) template: Template,
    pub(super) revisions: Revisions<'a>,
    pub(super) claims: Claims<'a>,
    pub(super) mode: Mode,
    pub(super) patience: Patience,
    /// The subsets, in order.
    pub(super) places: Vec<Place<'a>>,
}

/// A subset, and what is there.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) subset: &'a Subset,
    pub(super) existing: Option<Existing<'a>>,
    /// Pods that count.
    pub(super) pods: Vec<&'a Pod>,
    /// What the status says of it.
    pub(super) status: Option<&'a SubsetStatus>,
    pub(super) outlook: Outlook<'a>,
    /// Pods that it gets; what it has as long as that is not decided.
    pub(super) replicas: i32,
    /// Pods that stay at the old revision.
    pub(super) partition: i32,
}

impl<'a> Snapshot<'a> {
    /// Looks at everything once. Fails with a sentence when the object cannot be understood.
    pub(super) fn of(observed: &'a Observed, owner: &'a Owner, env: &'a Env) -> Result<Self, String> {
        let united = &*observed.united;
        let uid = Uid::from(united.metadata.uid.as_deref().unwrap_or_default());
        if uid.is_empty() {
            return Err("it has no UID".to_owned());
        }
        if selector::is_empty(&united.spec.selector) {
            return Err("spec.selector chooses everything".to_owned());
        }
        let template = Template::of(&united.spec.template)?;
        let revisions = revisions::of(observed, owner, &template)?;
        let strategy = &united.spec.topology.schedule_strategy;
        let reserves = strategy
            .adaptive
            .as_ref()
            .is_some_and(|adaptive| adaptive.reserve_unschedulable_pods);
        let mode = match strategy.type_ {
            ScheduleStrategyType::Adaptive if reserves && !template.kind.is_stateful() => Mode::Reserving,
            ScheduleStrategyType::Adaptive => Mode::Adaptive,
            _ => Mode::Fixed,
        };
        let mut snapshot = Self {
            observed,
            united,
            claims: Claims::of(&observed.children, &uid, &united.spec.selector, template.kind),
            uid,
            owner,
            env,
            template,
            revisions,
            mode,
            patience: Patience::of(strategy.adaptive.as_ref()),
            places: Vec::new(),
        };
        snapshot.look_at_subsets();
        Ok(snapshot)
    }

    fn look_at_subsets(&mut self) {
        let mut seen = BTreeSet::new();
        for subset in &self.united.spec.topology.subsets {
            // A name that is there twice is refused; should it get here, the first one counts.
            if seen.insert(&*subset.name) {
                let place = self.place(subset);
                self.places.push(place);
            }
        }
    }

    fn place(&self, subset: &'a Subset) -> Place<'a> {
        let statuses = self.united.status.as_ref().map(|status| &*status.subset_statuses);
        let status = statuses.and_then(|all| all.iter().find(|known| known.name == subset.name));
        let existing = self.claims.children.get(&subset.name).cloned();
        let pods = existing
            .as_ref()
            .map(|existing| self.pods_of(existing))
            .unwrap_or_default();
        let current = existing.as_ref().map(Existing::replicas).unwrap_or_default();
        let partition = self.partition(&subset.name, current);
        let outlook = match (&existing, self.mode) {
            (_, Mode::Fixed) => Outlook::default(),
            (Some(existing), Mode::Adaptive) => {
                without_reservation(existing, &pods, status, self.patience, self.env.now)
            }
            (Some(existing), Mode::Reserving) => {
                let rollout = Rollout {
                    revision: self.revision(),
                    since: self.rollout_since(),
                    partition,
                };
                with_reservation(existing, &pods, status, &rollout, self.patience, self.env.now)
            }
            (None, mode) => {
                // What comes to a running one has to prove itself first.
                let is_late =
                    mode == Mode::Reserving && status.is_none() && statuses.is_some_and(|all| !all.is_empty());
                Outlook {
                    condition: is_late.then_some((ConditionStatus::False, subset::CREATED)),
                    ..Outlook::default()
                }
            }
        };
        Place {
            subset,
            existing,
            pods,
            status,
            outlook,
            replicas: current,
            partition,
        }
    }

    /// The Pods of a workload that count.
    pub(super) fn pods_of(&self, existing: &Existing<'_>) -> Vec<&'a Pod> {
        let uid = existing.child.meta().uid.to_string();
        let pods = self.observed.pods.get(&uid).into_iter().flatten();
        let mut pods: Vec<&Pod> = pods.map(|pod| &**pod).filter(|pod| is_active(pod)).collect();
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        pods
    }

    /// Name of the wanted revision.
    pub(super) fn revision(&self) -> &str {
        self.revisions.update.name()
    }

    /// When the rollout began that is under way.
    fn rollout_since(&self) -> Option<Timestamp> {
        let conditions = self.united.status.iter().flat_map(|status| &status.conditions);
        let mut going = conditions
            .filter(|known| known.type_ == condition::UPDATED && known.status == ConditionStatus::False)
            .filter(|_| !self.revisions.are_same());
        going.next()?.last_transition_time.as_ref().map(|time| time.0)
    }

    fn partition(&self, subset: &str, replicas: i32) -> i32 {
        let manual = self.united.spec.update_strategy.manual_update.as_ref();
        let asked = manual.and_then(|manual| manual.partitions.get(subset)).copied();
        asked.unwrap_or_default().min(replicas).max(0)
    }

    /// Wanted Pods.
    pub(super) fn total(&self) -> i32 {
        self.united.spec.replicas.unwrap_or(1).max(0)
    }

    /// Divides the Pods among the subsets. Fails with a sentence when that is not possible; then all stays as it is.
    pub(super) fn divide(&mut self) -> Result<(), String> {
        let shares: Vec<Share<'_>> = self.places.iter().map(Place::share).collect();
        let counts = allocate(self.total(), self.mode, &shares)?;
        for index in 0..self.places.len() {
            let Some(count) = counts.get(index).copied() else { break };
            let name = self.places.get(index).map(|place| &*place.subset.name);
            let partition = self.partition(name.unwrap_or_default(), count);
            if let Some(place) = self.places.get_mut(index) {
                (place.replicas, place.partition) = (count, partition);
                place.stay_marked();
            }
        }
        Ok(())
    }

    /// What a subset is to have.
    pub(super) fn wanted<'s>(&'s self, place: &'s Place<'_>) -> Wanted<'s> {
        Wanted {
            spec: &self.united.spec,
            template: &self.template,
            subset: place.subset,
            revision: self.revision(),
            replicas: place.replicas,
            partition: place.partition,
            max_unavailable: self.max_unavailable(place),
        }
    }

    /// Reserved Pods use up what may be unavailable; it has to be more, so that the others can be updated.
    fn max_unavailable(&self, place: &Place<'_>) -> Option<i32> {
        let existing = place.existing.as_ref().filter(|_| self.mode == Mode::Reserving)?;
        let (_, ready) = existing.counts();
        let count = existing
            .replicas()
            .saturating_sub(ready)
            .saturating_add(place.outlook.blocked);
        let is_for = matches!(self.template.kind, WorkloadKind::CloneSet | WorkloadKind::Deployment);
        (is_for && place.outlook.is_unschedulable && count > 0).then_some(count)
    }

    /// Pods that were made from the wanted revision.
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        pod.metadata.label(label::SUBSET_REVISION) == Some(self.revision())
    }
}

impl Place<'_> {
    fn share(&self) -> Share<'_> {
        let subset = self.subset;
        let ready = self.existing.as_ref().map_or(0, |existing| existing.counts().1);
        Share {
            name: &subset.name,
            replicas: subset.replicas.as_ref(),
            min: subset.min_replicas.as_ref(),
            max: subset.max_replicas.as_ref(),
            current: self.existing.as_ref().map(Existing::replicas),
            ready,
            is_unschedulable: self.outlook.is_unschedulable,
            is_marked: self.outlook.is_marked,
            reserved: self.reserved(),
        }
    }

    /// How many Pods are reserved.
    pub(super) fn reserved(&self) -> i32 {
        i32::try_from(self.outlook.reserved.len()).unwrap_or(i32::MAX)
    }

    /// A subset that takes Pods again and gets more stays marked: its new Pods are reserved until they have proved themselves.
    fn stay_marked(&mut self) {
        let current = self.existing.as_ref().map(Existing::replicas);
        let grows = current.is_some_and(|current| self.replicas > current);
        let recovers = self
            .outlook
            .condition
            .as_ref()
            .is_some_and(|(holds, _)| *holds == ConditionStatus::True);
        // Without reservation nothing is reserved, and a subset that recovers is just that.
        if grows && recovers && self.outlook.keeps_mark {
            self.outlook.condition = None;
        }
    }

    /// Pods that are updated, and those of them that are ready.
    pub(super) fn updated(&self, snapshot: &Snapshot<'_>) -> (i32, i32) {
        let updated = self.pods.iter().filter(|pod| snapshot.is_updated(pod));
        let (mut all, mut ready) = (0, 0);
        for pod in updated {
            all += 1;
            ready += i32::from(is_ready(pod));
        }
        (all, ready)
    }
}
