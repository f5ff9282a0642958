//! Making and deleting the workloads of subsets.
//!
//! A name is that of the object and of the subset, with five random characters behind them; of the object alone when both are too long for a name.

use std::collections::BTreeSet;

use kruise_api::names::event;
use kruise_api::resource::Preconditions;
use serde_json::{Value, json};

use super::allocate::Mode;
use super::child::{Child, Existing};
use super::render::{Rendered, render};
use super::snapshot::{Place, Snapshot};
use super::template::WorkloadKind;
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::validate::label::subdomain_faults;

/// Makes what is missing, and deletes what is too much.
pub(super) fn provision(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    create(snapshot, plan);
    let subsets: BTreeSet<&str> = snapshot.places.iter().map(|place| &*place.subset.name).collect();
    let superfluous = snapshot.claims.superfluous(&subsets);
    let superfluous = superfluous.into_iter().map(|existing| existing.child);
    let gone: Vec<&Child> = superfluous.chain(snapshot.claims.other_kinds.iter().copied()).collect();
    for kind in WorkloadKind::ALL {
        let gone: Vec<&Child> = gone
            .iter()
            .copied()
            .filter(|child| child.kind == kind && !child.is_deleting())
            .collect();
        delete(&gone, kind, plan);
    }
}

fn create(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let missing: Vec<&Place<'_>> = snapshot
        .places
        .iter()
        .filter(|place| place.existing.is_none())
        .collect();
    if missing.is_empty() {
        return;
    }
    let mut step = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::GoOn);
    let mut ids = snapshot.env.ids.clone();
    let kind = snapshot.template.kind;
    for place in &missing {
        let rendered = render(&snapshot.wanted(place));
        let begin = name_begin(&snapshot.owner.name, &place.subset.name);
        let name = format!("{begin}{}", ids.next_id());
        let write = Write::from(creation(snapshot, &begin, &name, &rendered)).or_else(Event::warning(
            event::FAILED_UPDATE_SUBSET,
            format!("Failed to create the workload of subset {}", place.subset.name),
        ));
        step.push(Chain::of(write));
    }
    add_events(&mut step, "Create", missing.len(), kind);
    plan.push(step);
    if snapshot.mode != Mode::Fixed {
        plan.wake(snapshot.patience.critical_time());
    }
}

fn creation(snapshot: &Snapshot<'_>, begin: &str, name: &str, rendered: &Rendered) -> Action {
    let resource = snapshot.template.kind.resource();
    let namespace = snapshot.united.metadata.namespace.as_deref().unwrap_or_default();
    let Rendered {
        labels,
        annotations,
        spec,
    } = rendered;
    let body: Value = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name, "generateName": begin, "namespace": namespace, "labels": labels, "annotations": annotations,
            "ownerReferences": [snapshot.owner.reference()],
        },
        "spec": spec,
    });
    Action::create(Target::new(resource, namespace, name), body)
}

/// What the API server keeps of the begin of a name that it completes.
const LONGEST_BEGIN: usize = 58;

/// The begin of the name of a subset's workload.
fn name_begin(united: &str, subset: &str) -> String {
    let both = format!("{united}-{subset}-");
    // Five characters follow.
    let is_name = subdomain_faults(&format!("{both}xxxxx")).is_empty();
    let begin = if is_name { both } else { format!("{united}-") };
    begin.chars().take(LONGEST_BEGIN).collect()
}

/// Deletes workloads of subsets that have an older one.
pub(super) fn delete_duplicates(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::GoOn);
    let living = |existing: &&Existing<'_>| !existing.child.is_deleting();
    for existing in snapshot.claims.duplicates.iter().filter(living) {
        let message = format!(
            "Failed to delete {}, subset {} has another",
            existing.child.name(),
            existing.subset
        );
        let failed = Event::warning(event::FAILED_DELETE_DUPLICATED_SUBSETS, message);
        step.push(Chain::of(deletion(existing.child).or_else(failed)));
    }
    plan.push(step);
}

fn delete(gone: &[&Child], kind: WorkloadKind, plan: &mut Plan) {
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::GoOn);
    for child in gone {
        let failed = Event::warning(
            event::FAILED_UPDATE_SUBSET,
            format!("Failed to delete {}", child.name()),
        );
        step.push(Chain::of(deletion(child).or_else(failed)));
    }
    add_events(&mut step, "Delete", gone.len(), kind);
    plan.push(step);
}

fn deletion(child: &Child) -> Write {
    Write::from(Action::delete(child.target(), Preconditions::same(&*child.object)))
}

/// Tells of a step once, with its last write.
fn add_events(step: &mut Step, verb: &str, count: usize, kind: WorkloadKind) {
    let message = format!("{verb} {count} Subset ({})", kind.name());
    if let Some(last) = step.chains.last_mut().and_then(|chain| chain.writes.last_mut()) {
        last.succeeded
            .push(Event::normal(event::SUCCESSFUL_UPDATE_SUBSET, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_long_names_then_the_begin_is_a_name_that_can_be_completed() {
        assert_eq!(name_begin("web", "zone-a"), "web-zone-a-");
        assert_eq!(name_begin(&"w".repeat(60), "a").len(), LONGEST_BEGIN);
        let long = format!("{}.{}", "w".repeat(30), "x.".repeat(80));
        let long = format!("{}y{}", long, "z".repeat(20));
        let begin = name_begin(&long, &"s".repeat(63));
        assert!(begin.starts_with(&"w".repeat(30)) && !begin.contains('s'), "{begin}");
        assert_eq!(name_begin("web", "Not_a_name"), "web-");
    }
}
