//! The installed daemon on real nodes: a real kubelet, a real containerd, real images.
//!
//! All tests share the cluster of the run, where the chart has put manager and daemons. `images` and `recreate` do by hand what the manager would, so that a
//! failure there is one of the daemon; the others ask for what users ask for and look at what the nodes do.

mod node {
    mod chaos;
    mod images;
    mod jobs;
    mod probes;
    mod recording;
    mod recreate;
    mod registry;
    mod requests;
    mod rights;
    mod update;
    mod world;
}
