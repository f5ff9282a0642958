//! Conditions, in the shapes that the kinds give them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

words! {
    /// Whether a condition holds.
    pub enum ConditionStatus { True, False, Unknown }
}

api! {
    /// A condition of a job.
    pub struct JobCondition {
        /// What the condition is about.
        #[serde(rename = "type")]
        required type_: String,
        /// `True`, `False` or `Unknown`.
        required status: ConditionStatus,
        /// When the condition was last looked at.
        last_probe_time: Option<Time>,
        /// When the status last changed.
        last_transition_time: Option<Time>,
        /// Why the status is what it is, in one word.
        reason: String,
        /// The same for people.
        message: String,
    }
}
