//! The whole manager against a real API server: several replicas in this process, installed and allowed to do what the chart says, and what may go wrong.
//!
//! Webhook configurations and CRDs belong to the whole cluster, so the tests run one after the other and take away what they put there.

mod cluster {
    mod chart;
    mod cloneset_crash;
    mod controllers;
    mod crash;
    mod election;
    mod life;
    mod older_crds;
    #[path = "scenarios/pod_history.rs"]
    mod pod_history;
    mod recordings;
    mod restart;
    mod storm;
    mod uninstall;
    mod upgrade;
    mod world;
}
