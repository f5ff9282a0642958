//! Rules that hold for objects of several kinds. Kinds add the paths, and the rules of their own.

pub mod deletion_protection;
pub mod job_name;
pub mod label;
pub mod node_terms;
pub mod object_meta;
pub mod pod_template;
pub mod scaled;
pub mod selector;
pub mod update_order;
