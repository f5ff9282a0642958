//! What users of WorkloadSpreads see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod workloadspread;
}

fn main() -> std::process::ExitCode {
    cluster::scenario::run("CloneSet", scenarios::workloadspread::all())
}
