//! kruise-daemon: the node agent.

fn main() {}
