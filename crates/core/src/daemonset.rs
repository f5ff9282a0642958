//! Advanced DaemonSet: one pod per node, rolled out step by step.

pub mod convert;
