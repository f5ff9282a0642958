//! Advanced StatefulSet: pods with a stable name and storage.

pub mod claims;
pub mod convert;
