//! What the two kinds of custom probes share.

words! {
    /// What a probe found out.
    pub enum ProbeState {
        /// The last checks passed.
        Succeeded,
        /// The last checks failed, or the container is not running.
        Failed,
        /// Nothing is known yet.
        Unknown,
    }
}
