//! What comes from users and the API server, judged, completed and converted as the recordings of OpenKruise have it. The kinds share one program: to link one
//! for each takes longer than all of these tests.

#[path = "cloneset_admission/main.rs"]
mod cloneset_admission;
#[path = "conversion/main.rs"]
mod conversion;
#[path = "daemonset_admission/main.rs"]
mod daemonset_admission;
#[path = "distribution_admission/main.rs"]
mod distribution_admission;
#[path = "image_admission/main.rs"]
mod image_admission;
#[path = "job_admission/main.rs"]
mod job_admission;
mod persistentpodstate_admission;
#[path = "probe_admission/main.rs"]
mod probe_admission;
#[path = "protection/main.rs"]
mod protection;
#[path = "sidecarset_admission/main.rs"]
mod sidecarset_admission;
#[path = "statefulset_admission/main.rs"]
mod statefulset_admission;
#[path = "uniteddeployment_admission/main.rs"]
mod uniteddeployment_admission;
mod wording;
