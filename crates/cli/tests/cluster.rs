//! The plugin as a person runs it, against a real API server. A manager is played by a listener that answers as its debug endpoint does.

mod cluster {
    mod commands;
    mod explain;
    mod stage;
}
