//! Every decision kruise takes, as pure functions: plan, default, validate, convert.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod admission;
pub mod advancedcronjob;
pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod conversion;
pub mod daemonset;
pub mod ephemeraljob;
pub mod field_error;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod json_patch;
pub mod launch_priority;
pub mod nodeimage;
pub mod nodepodprobe;
pub mod persistentpodstate;
pub mod plan;
pub mod pod;
pub mod pod_readiness;
pub mod pod_template;
pub mod podprobemarker;
pub mod podunavailablebudget;
pub mod rehearsal;
pub mod resourcedistribution;
pub mod shared;
pub mod sidecar_terminator;
pub mod sidecarset;
pub mod state_metrics;
pub mod statefulset;
pub mod uniteddeployment;
pub mod view;
pub mod workloadspread;
