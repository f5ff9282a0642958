//! The installed daemon on real nodes: a real kubelet, a real containerd, real images.
//!
//! All tests share the cluster of the run; each works on a node of its own. What the manager does in a cluster the tests do by hand where they
//! can, so that a failure here is one of the daemon.

mod node {
    mod images;
    mod recreate;
    mod update;
    mod world;
}
