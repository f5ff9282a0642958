//! UnitedDeployment: one workload spread over subsets, one child workload each.

pub mod convert;
