//! How a spread stands, in sentences.

use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread};

use super::ledger::NO_LIMIT;
use super::schedulable;

/// Returns a sentence for each subset of each version of the Pods.
pub fn subsets(spread: &WorkloadSpread) -> Vec<String> {
    let versions = spread
        .status
        .iter()
        .flat_map(|status| &status.versioned_subset_statuses);
    let lines = versions.flat_map(|(version, list)| list.iter().map(move |status| line(version, status)));
    lines.collect()
}

fn line(version: &str, status: &SubsetStatus) -> String {
    let room = match status.missing_replicas {
        NO_LIMIT => "no limit".to_owned(),
        room => format!("room for {room} more"),
    };
    let mut line = format!("{version}: subset {} has {} Pods, {room}", status.name, status.replicas);
    for (pods, what) in [
        (&status.creating_pods, "let in and not seen yet"),
        (&status.deleting_pods, "let go and still there"),
    ] {
        if !pods.is_empty() {
            line.push_str(&format!(", {} {what}", pods.len()));
        }
    }
    if schedulable::refuses(status) {
        line.push_str(", takes no new Pods as some found no node");
    }
    line
}
