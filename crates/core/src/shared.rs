//! What more than one kind needs. Kind modules never import each other; they meet here.

pub mod advance;
pub mod availability;
pub mod cloneset_shape;
pub mod conditions;
pub mod container_hash;
pub mod convert;
pub mod explain;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fnv;
pub mod go_json;
pub mod image_name;
pub mod image_pull;
pub mod inplace;
pub mod launch_priority;
pub mod lifecycle;
pub mod membership;
pub mod owner;
pub mod pod_change;
pub mod pod_factory;
pub mod pod_rank;
pub mod pod_update;
pub mod predownload;
pub mod quantity;
pub mod readiness;
pub mod revision;
pub mod scaled_value;
pub mod selector;
pub mod status;
pub mod time_to_live;
pub mod tree;
pub mod update_order;
pub mod validate;
