//! Which Pods are updated now, and how.
//!
//! 1. Candidates are Pods that are not at the hash of the set and that `updateStrategy.selector` chooses, if there is one.
//! 2. A candidate in which more than images would change cannot be updated in place: its condition says so, and it stays as it is. One with a container that is
//!    ready but does not run its image yet is in the middle of an update, and waits. One that is not ready does not: a broken image can be replaced.
//! 3. The rest is put into an [order](super::order), and the last of them are kept back by the partition, a share of all managed Pods. A share below 100 % keeps back one
//!    less than all.
//! 4. Pods that are not ready go at once. One that is goes as long as fewer Pods than `maxUnavailable` are under way: updated, and not ready or not consistent.
//!
//! 5. With gate `PodUnavailableBudgetUpdateGate` the budget of a Pod is asked before it is changed. In the place of one that is refused the next goes, so that
//!    it does not hold up Pods of other budgets.
//!
//! Only images are changed, with the record of what ran before; annotations that the set patches come along. A Pod that was changed meanwhile is looked at again.
//! A container that another set brought under the same name keeps its image.

use kruise_api::gates::Gate;
use kruise_api::names::{annotation, event};
use kruise_api::shared::IntOrPercent;
use serde_json::json;

use super::condition;
use super::inject::lasting;
use super::observed::PodVersion;
use super::order::ordered;
use super::patch_metadata;
use super::records::{self, LastStatus, Record, Records, UpdateState};
use super::snapshot::{Member, Sidecar, Snapshot};
use crate::plan::why;
use crate::plan::{self, Action, Chain, Event, OnFailure, Pace, Phase, Plan, PodNames, Step};
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::scaled_value::scaled_value;
use crate::shared::seconds::to_the_second;
use crate::shared::selector;

/// Pods that are updated in a round; the next follows at once, and a pause counts for the rest.
const ROUND: usize = 400;
/// Pods behind these of which annotations are read ahead.
const NEXT: usize = 16;

/// What is done in a round.
#[derive(Default)]
pub(super) struct Choice<'r, 'a> {
    /// Updated now: the first of these for which no budget refuses it.
    pub(super) update: Vec<&'r Member<'a>>,
    /// So many of them.
    most: usize,
    /// The next in the order, should some of those be left alone.
    next: Vec<&'r Member<'a>>,
    /// More than images would change.
    pub(super) not_upgradable: Vec<&'r Member<'a>>,
    in_progress: PodNames,
    backing_off: PodNames,
    kept: i64,
    waiting: i64,
    unavailable: i64,
    allowed: i64,
    wake: Option<std::time::Duration>,
}

/// Chooses the Pods of this round.
pub(super) fn choose<'r, 'a>(snapshot: &'r Snapshot<'a>) -> Choice<'r, 'a> {
    let strategy = &snapshot.set.spec.update_strategy;
    let mut choice = Choice::default();
    let mut waiting = Vec::new();
    let is_chosen = |member: &&Member<'_>| {
        let chosen = strategy.selector.as_ref();
        chosen.is_none_or(|chosen| selector::matches(chosen, |key| member.pod.metadata.label(key)))
    };
    let is_candidate = |member: &&Member<'_>| !member.is_updated && member.record.is_ok();
    for member in snapshot.members.iter().filter(is_candidate).filter(is_chosen) {
        if !member.is_upgradable {
            choice.not_upgradable.push(member);
        } else if is_under_way(snapshot, member) {
            choice.in_progress.push(&member.name());
        } else if let Some(rest) = snapshot.observed.last.backs_off(member.pod, snapshot.env.now) {
            choice.backing_off.push(&member.name());
            choice.wake = Some(choice.wake.map_or(rest, |earlier| earlier.min(rest)));
        } else {
            waiting.push(member);
        }
    }
    let mut waiting = ordered(waiting, &snapshot.members, strategy);
    let total = snapshot.members.len();
    let kept = partition(strategy.partition.as_ref(), total);
    let left = waiting.len().saturating_sub(kept);
    choice.kept = (waiting.len() - left) as i64;
    waiting.truncate(left);
    let is_unavailable = |member: &&Member<'_>| member.is_updated && !(member.is_consistent && member.is_ready);
    choice.unavailable = snapshot.members.iter().filter(is_unavailable).count() as i64;
    let one = IntOrPercent::Int(1);
    let most = strategy.max_unavailable.as_ref().unwrap_or(&one);
    choice.allowed = scaled_value(most, i32::try_from(total).unwrap_or(i32::MAX), IntOrPercent::ceil_of);
    let mut unavailable = choice.unavailable;
    for member in &waiting {
        if member.is_ready && unavailable >= choice.allowed {
            break;
        }
        unavailable += i64::from(member.is_ready);
        choice.update.push(member);
    }
    choice.waiting = (waiting.len() - choice.update.len()) as i64;
    choice.update.truncate(ROUND);
    choice.most = choice.update.len();
    if asks(snapshot) && choice.most > 0 {
        // In the place of those that are refused.
        let others = waiting.iter().take(ROUND).skip(choice.most);
        choice.update.extend(others);
    }
    choice.next = waiting.iter().skip(choice.update.len()).take(NEXT).copied().collect();
    choice
}

/// A container is ready and does not run its image yet.
fn is_under_way(snapshot: &Snapshot<'_>, member: &Member<'_>) -> bool {
    let mut names = snapshot.sidecars.iter().flat_map(Sidecar::container_names);
    !member.is_consistent && names.any(|name| member.is_container_ready(name) && !member.runs(|known| known == name))
}

/// How many of so many Pods stay at the old hash.
fn partition(partition: Option<&IntOrPercent>, total: usize) -> usize {
    let Some(partition) = partition else { return 0 };
    let pods = i32::try_from(total).unwrap_or(i32::MAX);
    let keeps = scaled_value(partition, pods, IntOrPercent::ceil_of);
    let keeps = usize::try_from(keeps).unwrap_or_default().min(total);
    let is_below_all = matches!(partition, IntOrPercent::Text(text) if &**text != "100%");
    if is_below_all && keeps == total && total >= 2 {
        total - 1
    } else {
        keeps
    }
}

/// Adds what was chosen to the plan, and why not more.
pub(super) fn update(snapshot: &Snapshot<'_>, choice: &Choice<'_, '_>, latest: &str, plan: &mut Plan) {
    mark(snapshot, choice, plan);
    let mut step = disturbing(snapshot);
    step.most = asks(snapshot).then_some(choice.most);
    for member in &choice.update {
        match change(snapshot, member, latest) {
            Ok(change) => {
                let requests = change.requests(member.pod, Guard::Version, true);
                let write = |request| Action::patch_pod(member.pod, request).into();
                step.push(asked(snapshot, member, requests.into_iter().map(write).collect()));
            }
            Err(message) => plan.because(why::Pods::Unreadable {
                pods: [&*member.name()].into_iter().collect(),
                message,
            }),
        }
    }
    plan.push(step);
    explain(choice, plan);
}

/// A step whose writes disturb Pods. Budgets are asked in the order of the Pods.
pub(super) fn disturbing(snapshot: &Snapshot<'_>) -> Step {
    let pace = if asks(snapshot) { Pace::InOrder } else { Pace::Bounded };
    Step::new(Phase::Update, pace, OnFailure::Skip)
}

/// Has the budget of a Pod asked before these writes.
pub(super) fn asked(snapshot: &Snapshot<'_>, member: &Member<'_>, mut writes: Chain) -> Chain {
    writes.guard = asks(snapshot).then(|| plan::Guard::Budget {
        pod: member.pod.metadata.name.to_string(),
    });
    writes
}

/// Whether the budget of a Pod refused it in the last round. Of Pods in several namespaces with one name all are taken to be refused.
pub(super) fn was_refused(snapshot: &Snapshot<'_>, member: &Member<'_>) -> bool {
    let refused = &snapshot.observed.last.refused;
    refused.iter().any(|name| **name == *member.pod.metadata.name)
}

fn asks(snapshot: &Snapshot<'_>) -> bool {
    snapshot.env.gates.enabled(Gate::PodUnavailableBudgetUpdateGate)
}

/// Says of Pods that they cannot be updated, and tells it when one is new among them.
fn mark(snapshot: &Snapshot<'_>, choice: &Choice<'_, '_>, plan: &mut Plan) {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::Skip);
    for member in &choice.not_upgradable {
        step.push(condition::set(snapshot, member, false));
    }
    if !step.chains.is_empty() {
        let count = choice.not_upgradable.len();
        let message =
            format!("SidecarSet in-place update detected {count} not upgradable pod(s) in this round, will skip them.");
        plan.events.push(Event::normal(event::NOT_UPGRADABLE_PODS, message));
    }
    plan.push(step);
}

fn explain(choice: &Choice<'_, '_>, plan: &mut Plan) {
    if !choice.not_upgradable.is_empty() {
        let names = choice.not_upgradable.iter().map(|member| member.name());
        let mut pods = PodNames::default();
        names.for_each(|name| pods.push(&name));
        let because = "more than images has changed".to_owned();
        plan.because(why::Rollout::NotInPlace { pods, because });
    }
    if !choice.in_progress.is_empty() {
        let pods = choice.in_progress.clone();
        plan.because(why::Pods::WaitingForContainers { pods });
    }
    if !choice.backing_off.is_empty() {
        let pods = choice.backing_off.clone();
        plan.because(why::Rollout::BackOff { pods });
    }
    if choice.kept > 0 {
        let keeps = choice.kept as i32;
        plan.because(why::Rollout::Partition { keeps });
    }
    if choice.waiting > 0 {
        plan.because(why::Rollout::UpdateBudget {
            allowed: choice.allowed as i32,
            unavailable: choice.unavailable as i32,
            waiting: choice.waiting as i32,
        });
    }
    if let Some(rest) = choice.wake {
        plan.wake(rest);
    }
}

/// The Pods of which all annotations have to be known before they are updated.
pub(super) fn annotations_to_read(snapshot: &Snapshot<'_>) -> Vec<PodVersion> {
    if !patch_metadata::looks_at_annotations(&snapshot.set.spec.patch_pod_metadata) {
        return Vec::new();
    }
    let Choice { update, next, .. } = choose(snapshot);
    let members = update.iter().chain(&next);
    members.map(|member| PodVersion::of(member.pod)).collect()
}

fn change(snapshot: &Snapshot<'_>, member: &Member<'_>, latest: &str) -> Result<PodChange, String> {
    let mut change = metadata(snapshot, member)?;
    let mut working = member.working.clone();
    let mut states = records::update_states(member.pod)?;
    let now = to_the_second(snapshot.env.now);
    let mut replaced = Vec::new();
    for sidecar in snapshot
        .sidecars
        .iter()
        .filter(|sidecar| member.has_brought(sidecar.name))
    {
        let wanted = (sidecar.name, sidecar.image);
        if let Some(pair) = &sidecar.pair {
            replaced.extend(pair.update(snapshot, member, wanted, &mut working, &mut change));
        } else if member.image(sidecar.name) != sidecar.image {
            change.images.insert(sidecar.name.to_owned(), sidecar.image.to_owned());
            replaced.push(sidecar.name.to_owned());
        }
    }
    if working != member.working {
        change.set_annotation(annotation::SIDECAR_SET_WORKING_CONTAINER, json!(working).to_string());
    }
    let state = states.entry(snapshot.name.to_owned()).or_insert_with(|| UpdateState {
        revision: snapshot.hashes.hash.clone(),
        update_timestamp: Some(now.clone()),
        ..UpdateState::default()
    });
    for container in replaced {
        let image_id = member.image_id(&container);
        state.last_container_statuses.insert(container, LastStatus { image_id });
    }
    change.set_annotation(annotation::SIDECAR_SET_IN_PLACE_STATE, records::written(&states));
    let mut records = Records::read(member.pod, annotation::SIDECAR_SET_HASH)?;
    let mut brought = lasting(&snapshot.set.spec);
    brought.retain(|name| member.has_brought(name));
    records.by_set.insert(
        snapshot.name.to_owned(),
        Record {
            update_timestamp: Some(now),
            hash: snapshot.hashes.hash.clone(),
            sidecar_set_name: snapshot.name.to_owned(),
            sidecar_list: Some(brought),
            controller_revision: latest.to_owned(),
        },
    );
    change.set_annotation(annotation::SIDECAR_SET_HASH, records.text());
    let without_image = Records::read(member.pod, annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE)?;
    if without_image.has_old_form {
        change.set_annotation(annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE, without_image.text());
    }
    Ok(change)
}

/// The annotations that the set patches.
fn metadata(snapshot: &Snapshot<'_>, member: &Member<'_>) -> Result<PodChange, String> {
    let patches = &snapshot.set.spec.patch_pod_metadata;
    let mut change = PodChange::default();
    if patches.is_empty() {
        return Ok(change);
    }
    let read = snapshot.observed.annotations.get(&PodVersion::of(member.pod));
    let present = match read {
        Some(read) => read.clone(),
        None if patch_metadata::looks_at_annotations(patches) => {
            return Err("annotations that were not read yet".to_owned());
        }
        None => std::collections::BTreeMap::new(),
    };
    let changed = patch_metadata::changes(patches, &present).map_err(|fault| fault.to_string())?;
    for (key, value) in changed {
        change.set_annotation(&key, value);
    }
    Ok(change)
}
