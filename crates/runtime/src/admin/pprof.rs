//! The profiler's address.
//!
//! The original serves Go's profiler there. The flags stay, and so does the index, so that a script which looks whether the
//! address answers still gets its 200; each profile is answered 501 with the reason.

use axum::{Router, http::StatusCode, routing::get};

const INDEX: &str = "\
/debug/pprof/

cmdline   the command line of this process
profile   not available: this process is not written in Go

Use `perf record -g -p <pid>` for a CPU profile, and process_resident_memory_bytes in /metrics for memory.
";

/// Returns the router of `/debug/pprof/` and what is below it.
pub fn router() -> Router {
    Router::new()
        .route("/debug/pprof", get(|| async { INDEX }))
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route("/debug/pprof/cmdline", get(|| async { command_line() }))
        .route(
            "/debug/pprof/{profile}",
            get(|| async {
                (
                    StatusCode::NOT_IMPLEMENTED,
                    "Go profiles are not available: this process is not written in Go\n",
                )
            }),
        )
}

/// Words separated by NUL, as Go's profiler answers.
fn command_line() -> String {
    let words: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join("\0")
}
