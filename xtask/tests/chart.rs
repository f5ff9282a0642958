//! The Helm chart as a user sees it: which objects it makes from which values.

mod chart {
    mod crds;
    mod gates;
    mod objects;
    mod pods;
    mod rbac;
    mod render;
    mod ui;
    mod webhooks;
}
