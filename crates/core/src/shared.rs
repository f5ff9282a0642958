//! What more than one kind needs. Kind modules never import each other; they meet here, and nothing here asks which kind it works for: what differs
//! between kinds is a trait or an argument.
//!
//! A workload that makes Pods writes its own rules, how many Pods there may be and which of them come first, and finds the rest here:
//!
//! | for | module |
//! |---|---|
//! | whose Pods are whose, and what decisions ask about one | [`membership`], [`owner`], [`availability`] |
//! | on which nodes a Pod can be | [`node_eligibility`] |
//! | revisions of the template, and their history | [`revision`] |
//! | new Pods and their claims | [`pod_factory`] |
//! | hooks, and Pods that are on their way | [`lifecycle`], [`readiness`], [`advance`] |
//! | updates: in place or not, batches, records | [`pod_update`], [`inplace`], [`container_hash`] |
//! | which Pod comes first | [`update_order`], [`pod_rank`] |
//! | images ahead of an update | [`predownload`] |
//! | ordinals that a set wants | [`ordinals`] |
//! | what probes leave on Pods | [`probe_marks`] |
//! | numbers that users give as shares | [`scaled_value`] |
//! | status, conditions, reasons | [`status`], [`conditions`], [`explain`] |
//! | patches of Pods that users write | [`strategic_merge`] |
//! | workloads of any kind, by reference | [`workload`] |
//! | rules of admission | [`validate`] |

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
pub mod lifecycle;
pub mod membership;
pub mod node_eligibility;
pub mod ordinals;
pub mod owner;
pub mod pod_change;
pub mod pod_factory;
pub mod pod_rank;
pub mod pod_update;
pub mod predownload;
pub mod probe_marks;
pub mod quantity;
pub mod readiness;
pub mod revision;
pub mod scaled_value;
pub mod seconds;
pub mod selector;
pub mod status;
pub mod strategic_merge;
#[cfg(test)]
pub(crate) mod takeover;
pub mod time_to_live;
pub mod tree;
pub mod update_order;
pub mod validate;
pub mod workload;
