//! Scattering: Pods with a label are not updated in a row but spread over the rollout.

api! {
    /// Pods with this label are spread over the rollout.
    pub struct ScatterTerm {
        /// Key of the label.
        required key: String,
        /// Value of the label.
        required value: String,
    }
}
