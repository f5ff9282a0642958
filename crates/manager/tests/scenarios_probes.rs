//! What users of PodProbeMarkers see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod probes;
}

/// Pods carry their probes, and liveness probes are set aside.
const GATES: &str = "--feature-gates=EnablePodProbeMarkerOnServerless=true,EnhancedLivenessProbe=true";

fn main() -> std::process::ExitCode {
    cluster::scenario::run_gated("PodProbeMarker", GATES, scenarios::probes::all())
}
