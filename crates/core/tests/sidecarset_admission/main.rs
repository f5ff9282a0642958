//! What happens to a SidecarSet on its way in and to the Pods it applies to, compared with what the original did.

mod defaults;
mod pods;
mod verdicts;
