//! kubectl-kruise: the kubectl plugin.

fn main() {}
