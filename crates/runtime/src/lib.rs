//! How to live in a cluster: cache, queue, writer, lease, events, metrics, admin endpoint, shutdown.
