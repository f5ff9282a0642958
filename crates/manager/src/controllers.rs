//! The controllers of the manager: their names, and the flag that says how many objects each works on at once.

use kruise_api::names::component::controller;

/// One controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// Its name in metrics, events and the user agent.
    pub name: &'static str,
    /// The flag for its workers; some have a fixed number.
    pub workers_flag: Option<&'static str>,
    /// Workers unless the flag says otherwise.
    pub workers: i64,
}

const fn tunable(name: &'static str, workers_flag: &'static str) -> Controller {
    Controller {
        name,
        workers_flag: Some(workers_flag),
        workers: 3,
    }
}

const fn fixed(name: &'static str, workers: i64) -> Controller {
    Controller {
        name,
        workers_flag: None,
        workers,
    }
}

/// All controllers, in the order in which they start.
pub const CONTROLLERS: [Controller; 21] = [
    tunable(controller::ADVANCED_CRON_JOB, "advancedcronjob-workers"),
    tunable(controller::BROADCAST_JOB, "broadcastjob-workers"),
    tunable(controller::CLONE_SET, "cloneset-workers"),
    tunable(controller::CONTAINER_RECREATE_REQUEST, "crr-workers"),
    tunable(controller::DAEMON_SET, "daemonset-workers"),
    tunable(controller::NODE_IMAGE, "nodeimage-workers"),
    tunable(controller::IMAGE_PULL_JOB, "imagepulljob-workers"),
    fixed(controller::POD_READINESS, 3),
    tunable(controller::SIDECAR_SET, "sidecarset-workers"),
    tunable(controller::STATEFUL_SET, "statefulset-workers"),
    tunable(controller::UNITED_DEPLOYMENT, "uniteddeployment-workers"),
    tunable(controller::POD_UNAVAILABLE_BUDGET, "podunavailablebudget-workers"),
    tunable(controller::WORKLOAD_SPREAD, "workloadspread-workers"),
    tunable(controller::RESOURCE_DISTRIBUTION, "resourcedistribution-workers"),
    fixed(controller::EPHEMERAL_JOB, 10),
    fixed(controller::CONTAINER_LAUNCH_PRIORITY, 4),
    tunable(controller::PERSISTENT_POD_STATE, "persistentpodstate-workers"),
    tunable(controller::SIDECAR_TERMINATOR, "sidecarterminator-workers"),
    tunable(controller::POD_PROBE_MARKER, "podprobemarker-workers"),
    tunable(controller::NODE_POD_PROBE, "nodepodprobe-workers"),
    fixed(controller::IMAGE_LIST_PULL_JOB, 3),
];

#[cfg(test)]
mod tests {
    use super::CONTROLLERS;
    use std::collections::BTreeSet;

    #[test]
    fn given_the_controllers_then_no_name_and_no_flag_occurs_twice() {
        let names: BTreeSet<_> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        assert_eq!(names.len(), CONTROLLERS.len());
        let flags: Vec<_> = CONTROLLERS
            .iter()
            .filter_map(|controller| controller.workers_flag)
            .collect();
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
        assert_eq!(flags.len(), 17);
    }
}
