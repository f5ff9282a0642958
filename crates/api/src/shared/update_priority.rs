//! Which Pods are updated first.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

api! {
    /// Which Pods are updated first: by a label's value, or by weights.
    pub struct UpdatePriorityStrategy {
        /// Pods with the higher number in these labels go first.
        order_priority: Vec<OrderTerm>,
        /// Pods with the higher sum of weights go first.
        weight_priority: Vec<WeightTerm>,
    }

    /// A label that orders Pods.
    pub struct OrderTerm {
        /// Key of a label whose value ends with a number; higher numbers go first, Pods without it last.
        required ordered_key: String,
    }

    /// A weight for some Pods.
    pub struct WeightTerm {
        /// Added to the priority of the selected Pods, 0 to 100.
        required weight: i32,
        /// Which Pods get the weight.
        required match_selector: LabelSelector,
    }
}
