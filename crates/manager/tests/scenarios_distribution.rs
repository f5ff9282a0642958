//! What users of ResourceDistributions see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod resourcedistribution;
}

fn main() -> std::process::ExitCode {
    let gates = "--feature-gates=ResourceDistributionGate=true";
    cluster::scenario::run_gated("ResourceDistribution", gates, scenarios::resourcedistribution::all())
}
