//! What has to hold for the workspace as a whole, whoever works on which part of it:
//!
//! - dependencies point one way, and decisions know no clock, no chance and no network (`dependencies`, `purity`);
//! - a name of the contract is spelled out in one place only (`names`);
//! - sources keep the house style (`style`), and use the words of the field (`words`);
//! - crates inherit what the workspace says (`manifests`);
//! - licences and sources of what we depend on are those we allow (`licences`).
//!
//! The tests read sources as tokens, so that neither a comment nor a string can mislead them.

mod workspace {
    mod dependencies;
    mod files;
    mod licences;
    mod manifests;
    mod names;
    mod purity;
    mod style;
    mod tokens;
    mod words;
}
