//! Kubernetes' standard condition.
//!
//! k8s-openapi's own type refuses a condition without a time, which converted objects may have. By its schema's name
//! ours gets the standard structure in the CRD, with all its limits.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::ConditionStatus;

api! {
    /// A condition in Kubernetes' standard shape.
    #[schema(rename = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition")]
    pub struct StandardCondition {
        /// What the condition is about.
        #[serde(rename = "type")]
        required type_: String,
        /// `True`, `False` or `Unknown`.
        required status: ConditionStatus,
        /// Generation of the object that the condition is about.
        observed_generation: i64,
        /// When the status last changed.
        required last_transition_time: Option<Time>,
        /// Why the status is what it is, in one word.
        required reason: String,
        /// Details for people.
        required message: String,
    }
}
