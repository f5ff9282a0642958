//! Conditions, in the shapes that the kinds give them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

words! {
    /// Whether a condition holds.
    pub enum ConditionStatus { True, False, Unknown }
}

api! {
    /// One aspect of the object's state.
    pub struct Condition {
        /// What the condition is about.
        #[serde(rename = "type")]
        required type_: String,
        /// `True`, `False` or `Unknown`.
        required status: ConditionStatus,
        /// When the status last changed.
        last_transition_time: Option<Time>,
        /// Why the status is what it is, in one word.
        reason: String,
        /// Details for people.
        message: String,
    }

    /// One aspect of the state of a job.
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
        /// Details for people.
        message: String,
    }
}
