//! What users of UnitedDeployments see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod uniteddeployment;
}

fn main() -> std::process::ExitCode {
    cluster::scenario::run_gated(
        "UnitedDeployment",
        "--feature-gates=ResourcesDeletionProtection=true",
        scenarios::uniteddeployment::all(),
    )
}
