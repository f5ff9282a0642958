//! The whole manager against a real API server, installed and allowed to do what the chart says.
//!
//! Webhook configurations and CRDs belong to the whole cluster, so tests on the same control plane run one after the other and take away what they put there.

#[allow(dead_code, reason = "the other target needs more of it")]
mod cluster {
    mod chart;
    mod helm;
    mod life;
    mod live_page;
    mod monitoring;
    mod older_crds;
    mod readers;
    mod recordings;
    mod restart;
    mod sidecars_restart;
    mod spread_replicas;
    mod two_replicas;
    mod uninstall;
    mod upgrade;
    mod without_managers;
    mod world;
}
