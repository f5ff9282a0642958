//! What users of NodeImages and the jobs that pull images through them see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod images;
}

fn main() -> std::process::ExitCode {
    cluster::scenario::run("ImagePullJob", scenarios::images::all())
}
