//! ResourceDistribution: one Secret or ConfigMap in many namespaces.

pub mod convert;
