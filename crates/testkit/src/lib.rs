//! Local clusters, simulated kubelets, faults, builders and eventually() for tests.
