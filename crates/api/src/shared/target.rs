//! Pointing to the workload that a policy is about.

api! {
    /// Points to a workload in the same namespace.
    pub struct TargetReference {
        /// Group and version of the workload; another version of the same group means the same workload.
        required api_version: String,
        /// Kind of the workload.
        required kind: String,
        /// Name of the workload.
        required name: String,
    }
}
