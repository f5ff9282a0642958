//! Lifecycle hooks: moments at which a Pod waits for somebody else.
//!
//! A hook names labels or finalizers. While a Pod carries them, the step that the hook guards does not happen.

use std::collections::BTreeMap;

api! {
    /// Hooks that hold a Pod back at certain moments.
    pub struct Lifecycle {
        /// Holds a Pod back before it is deleted.
        pre_delete: Option<LifecycleHook>,
        /// Holds a Pod back before and after it is updated in place.
        in_place_update: Option<LifecycleHook>,
        /// Holds a new Pod back before it counts as available.
        pre_normal: Option<LifecycleHook>,
    }

    /// What a Pod carries while the hook holds it.
    pub struct LifecycleHook {
        /// Labels, with their values, that hold the Pod.
        labels_handler: BTreeMap<String, String>,
        /// Finalizers that hold the Pod.
        finalizers_handler: Vec<String>,
        /// True makes the Pod not ready while it is held.
        mark_pod_not_ready: bool,
    }
}
