//! WorkloadSpread: the pods of one workload spread over subsets at admission.

pub mod convert;
