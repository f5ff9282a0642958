//! ContainerRecreateRequest: restart chosen containers of a running pod.

pub mod admit;
pub mod convert;
