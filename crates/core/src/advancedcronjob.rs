//! AdvancedCronJob: jobs on a schedule.

pub mod convert;
