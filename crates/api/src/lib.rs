//! The kruise API: one module per kind, versions inside it, and every name that is part of the contract.
