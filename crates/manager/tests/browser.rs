//! The live page as people see it: a real manager on a real API server, and Chromium.

#[allow(dead_code, reason = "the other target needs more of it")]
mod cluster {
    mod chart;
    mod readers;
    mod rollout_page;
    mod world;
}
