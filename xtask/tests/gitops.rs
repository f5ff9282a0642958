//! What tools that deploy from Git make of our objects: the health checks for Argo CD, and what kstatus expects, over objects in each state.
//!
//! `gitops/objects.yaml` has the objects, each with what is to be said of it.

mod gitops {
    mod health;
    mod kstatus;
    mod objects;
}
