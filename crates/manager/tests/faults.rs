//! What may go wrong with a manager on a real API server: it dies after any of its writes, answers get lost, views lag, leases are lost.
//!
//! Webhook configurations and CRDs belong to the whole cluster, so the tests run one after the other and take away what they put there. Matrices are gone through
//! as a whole with `cargo xtask test --level torture`.

#[allow(dead_code, reason = "the other target needs more of it")]
mod cluster {
    mod budget_crash;
    mod chart;
    mod controllers;
    mod crash;
    mod distribution_crash;
    mod election;
    mod job_crash;
    #[path = "scenario/pod_history.rs"]
    mod pod_history;
    mod probes_crash;
    mod sidecarset_crash;
    mod spread_crash;
    mod storm;
    mod united_crash;
    mod workload_crash;
    mod world;
}
