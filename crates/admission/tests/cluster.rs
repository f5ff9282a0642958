//! Admission against a real API server, which calls us at 127.0.0.1.
//!
//! Webhook configurations and CRDs belong to the whole cluster, so the tests run one after the other. Each has configurations of its own that reach only its
//! own namespace, and takes away what it put there.

mod cluster {
    mod apply;
    mod certificates;
    mod cloneset;
    mod conversion;
    mod examples;
    mod external;
    mod installation;
    mod pods;
    mod rotation;
    mod templates;
    mod verdicts;
}
