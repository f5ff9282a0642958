//! The status: how many namespaces have the copy, and for each thing that can go wrong where it did.
//!
//! There are always six conditions in the same order. `True` is bad: the reason is the text of the last error, namespaces in alphabetical order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kruise_api::resourcedistribution::DistributionConditionType as Fault;
use kruise_api::resourcedistribution::v1beta1::{
    DistributionCondition, ResourceDistribution, ResourceDistributionStatus,
};
use kruise_api::shared::conditions::ConditionStatus;

use crate::plan::Action;
use crate::shared::conditions::to_second;
use crate::shared::status;

const ALL: [Fault; 6] = [
    Fault::GetResourceFailed,
    Fault::CreateResourceFailed,
    Fault::UpdateResourceFailed,
    Fault::DeleteResourceFailed,
    Fault::ConflictOccurred,
    Fault::NamespaceNotExists,
];
/// The reason while all is well.
const WELL: &str = "Succeeded";

/// What went wrong, and where.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<(Fault, BTreeMap<String, String>)>);

impl Report {
    /// Something went wrong in a namespace.
    pub(super) fn fail(&mut self, fault: Fault, namespace: &str, message: &str) {
        let entry = (namespace.to_owned(), message.to_owned());
        match self.0.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, namespaces)) => namespaces.extend([entry]),
            None => self.0.push((fault, BTreeMap::from([entry]))),
        }
    }

    fn of(&self, fault: &Fault) -> Option<&BTreeMap<String, String>> {
        self.0
            .iter()
            .find(|(known, _)| known == fault)
            .map(|(_, namespaces)| namespaces)
    }

    /// Where something went wrong, by name.
    pub(super) fn namespaces(&self, fault: &Fault) -> impl Iterator<Item = &str> {
        self.of(fault).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// What was said last when something went wrong.
    pub(super) fn last(&self, fault: &Fault) -> Option<&str> {
        self.of(fault)?.last_key_value().map(|(_, message)| message.as_str())
    }

    /// Returns the write of the status; none when it is right already.
    pub(super) fn write(&self, distribution: &ResourceDistribution, targets: usize, now: Timestamp) -> Option<Action> {
        let old = distribution.status.as_ref();
        // What could not be cleaned up is in no target.
        let of_targets = |fault: &&Fault| **fault != Fault::DeleteResourceFailed;
        let failed = ALL
            .iter()
            .filter(of_targets)
            .flat_map(|fault| self.namespaces(fault))
            .count();
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let known = old.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let conditions = ALL.iter().enumerate().map(|(place, fault)| {
            let status = if self.of(fault).is_some() {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            };
            let before = known.get(place).filter(|before| before.status == status);
            DistributionCondition {
                type_: fault.clone(),
                last_transition_time: before
                    .map_or_else(|| Some(to_second(now)), |before| before.last_transition_time.clone()),
                status,
                reason: self.last(fault).unwrap_or(WELL).to_owned(),
                failed_namespaces: self.namespaces(fault).map(str::to_owned).collect(),
            }
        });
        let new = ResourceDistributionStatus {
            desired: count(targets),
            succeeded: count(targets.saturating_sub(failed)),
            failed: count(failed),
            observed_generation: distribution.metadata.generation.unwrap_or_default(),
            conditions: conditions.collect(),
        };
        status::patch(distribution, old, &new)
    }
}
