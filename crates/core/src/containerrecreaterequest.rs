//! ContainerRecreateRequest: restart chosen containers of a running pod.

pub mod convert;
