//! The plugin as a person runs it, against a real API server. A listener that answers as its debug endpoint does stands for the manager.

mod cluster {
    mod change;
    mod commands;
    mod explain;
    mod get;
    mod migrate;
    mod plan;
    mod protection;
    mod rollout;
    mod sidecar;
    mod stage;
}
