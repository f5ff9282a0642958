//! API groups and their versions.

/// The group of every kind but PodUnavailableBudget.
pub const APPS: &str = "apps.kruise.io";
/// The group of PodUnavailableBudget.
pub const POLICY: &str = "policy.kruise.io";
/// The group of questions about objects of the others. OpenKruise does not have it.
pub const EXPLAIN: &str = "explain.kruise.io";

/// The version that users of 1.0 to 1.8 speak; served for every kind.
pub const V1ALPHA1: &str = "v1alpha1";
/// The storage version of every kind that has it.
pub const V1BETA1: &str = "v1beta1";

/// `apiVersion` of the older version of the workload kinds.
pub const APPS_V1ALPHA1: &str = "apps.kruise.io/v1alpha1";
/// `apiVersion` of the newer version of the workload kinds.
pub const APPS_V1BETA1: &str = "apps.kruise.io/v1beta1";
/// `apiVersion` of the older version of PodUnavailableBudget.
pub const POLICY_V1ALPHA1: &str = "policy.kruise.io/v1alpha1";
/// `apiVersion` of the newer version of PodUnavailableBudget.
pub const POLICY_V1BETA1: &str = "policy.kruise.io/v1beta1";
