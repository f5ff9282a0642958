//! What users of SidecarSets and of the sidecar terminator see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod sidecarset {
        pub(crate) mod choice;
        pub(crate) mod hot_upgrade;
        pub(crate) mod injection;
        pub(crate) mod recording;
        pub(crate) mod refusals;
        pub(crate) mod status;
        pub(crate) mod terminator;
        pub(crate) mod update;
        pub(crate) mod update_examples;
        mod update_support;
    }
}

fn main() -> std::process::ExitCode {
    use scenarios::sidecarset as of;
    let all = [
        of::choice::all(),
        of::hot_upgrade::all(),
        of::injection::all(),
        of::recording::all(),
        of::refusals::all(),
        of::status::all(),
        of::terminator::all(),
        of::update::all(),
        of::update_examples::all(),
    ];
    cluster::scenario::run("SidecarSet", all.into_iter().flatten().collect())
}
