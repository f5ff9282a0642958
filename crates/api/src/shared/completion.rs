//! When a job that runs on many nodes is done.

words! {
    /// When a job that runs on many nodes is done.
    pub enum CompletionPolicyType {
        /// When every chosen node is done.
        Always,
        /// Not at all: nodes that join later are served too.
        Never,
    }
}

api! {
    /// When the job is done and when it is removed.
    pub struct CompletionPolicy {
        /// `Always`: done when every chosen node is done. `Never`: goes on for nodes that join later.
        #[serde(rename = "type")]
        type_: CompletionPolicyType,
        /// Seconds after which a job of type `Always` ends even if some nodes are not done.
        active_deadline_seconds: Option<i64>,
        /// Seconds after its end when a job of type `Always` is deleted; kept when not given.
        ttl_seconds_after_finished: Option<i32>,
    }
}
