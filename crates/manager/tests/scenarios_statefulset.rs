//! What users of StatefulSets see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod statefulset;
}

/// Gates that change nothing for those who do not ask for what they allow.
const GATES: &str = "--feature-gates=StatefulSetStartOrdinal=true,StatefulSetAutoResizePVCGate=true";

fn main() -> std::process::ExitCode {
    cluster::scenario::run_gated("StatefulSet", GATES, scenarios::statefulset::all())
}
