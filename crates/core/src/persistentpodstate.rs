//! PersistentPodState: bring a pod back to where it ran before.

pub mod convert;
