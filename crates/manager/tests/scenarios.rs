//! What users of the workloads see, on a real API server with one manager and one set of simulated nodes that all scenarios share.
//!
//! A scenario has a namespace of its own and runs beside many others: it waits far more than it works. To add some, write a module below
//! `cluster/scenarios` and name it in `cluster/scenarios.rs`. What needs a manager of its own is in the target `cluster`.

mod cluster {
    mod chart;
    pub(super) mod scenarios;
    #[allow(dead_code, reason = "the other target needs more of it")]
    mod world;
}

fn main() -> std::process::ExitCode {
    cluster::scenarios::run()
}
