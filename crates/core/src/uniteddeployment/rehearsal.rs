//! What a change would come to: what the workload of each subset is to be. Their own controllers see to the Pods, in their order and within their budgets.

use std::collections::BTreeSet;

use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;

use super::child::Existing;
use super::render::patch_text;
use super::snapshot::{Place, Snapshot};
use super::{Observed, plan};
use crate::plan::Env;
use crate::rehearsal::{Proposal, Rehearsal, SubsetChange, SubsetShare};
use crate::shared::owner::Owner;

impl Proposal for Observed {
    type Object = UnitedDeployment;

    fn rehearse(self, env: &Env) -> Rehearsal {
        let owner = Owner::of::<UnitedDeployment>(&self.united.metadata);
        let subsets = Snapshot::of(&self, &owner, env).and_then(|mut snapshot| {
            snapshot.divide()?;
            Ok(changes(&snapshot))
        });
        Rehearsal {
            // Why there is no answer is among the reasons of the plan.
            subsets: subsets.unwrap_or_default(),
            at_last: plan(&self, env).why,
            ..Rehearsal::default()
        }
    }
}

fn changes(snapshot: &Snapshot<'_>) -> Vec<SubsetChange> {
    let subsets: BTreeSet<&str> = snapshot.places.iter().map(|place| &*place.subset.name).collect();
    let places = snapshot.places.iter().map(|place| change(snapshot, place));
    let gone = snapshot
        .claims
        .superfluous(&subsets)
        .into_iter()
        .map(|existing| SubsetChange {
            subset: existing.subset.clone(),
            before: Some(as_it_is(snapshot, existing)),
            ..SubsetChange::default()
        });
    places.chain(gone).collect()
}

fn change(snapshot: &Snapshot<'_>, place: &Place<'_>) -> SubsetChange {
    let existing = place.existing.as_ref();
    let is_same = |existing: &Existing<'_>| {
        existing.revision() == snapshot.revision() && existing.has_patch(patch_text(place.subset))
    };
    SubsetChange {
        subset: place.subset.name.clone(),
        before: existing.map(|existing| as_it_is(snapshot, existing)),
        after: Some(SubsetShare {
            replicas: place.replicas,
            partition: snapshot.template.kind.has_partition().then_some(place.partition),
        }),
        template_changes: existing.is_some_and(|existing| !is_same(existing)),
    }
}

fn as_it_is(snapshot: &Snapshot<'_>, existing: &Existing<'_>) -> SubsetShare {
    SubsetShare {
        replicas: existing.replicas(),
        partition: snapshot.template.kind.has_partition().then(|| existing.partition()),
    }
}
