//! The whole daemon against a real API server and a container runtime that does as it is told.
//!
//! Each test has a node of its own name, with a daemon that has no more rights than the chart gives it. What the manager does in a cluster,
//! the tests do by hand.

mod cluster {
    mod images;
    mod meta;
    mod node_restriction;
    mod probes;
    mod recreate;
    mod recreate_failures;
    mod world;
}
