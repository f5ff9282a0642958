//! kruise-manager: controllers and admission.

fn main() {}
