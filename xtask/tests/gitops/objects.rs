//! The objects, and what is expected of each.

use serde::Deserialize;
use serde_json::Value;

/// An object, and what tools are to make of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// What has happened to it.
    pub(super) what: String,
    /// What Argo CD is to say.
    pub(super) argo: String,
    /// A part of the sentence that it says.
    pub(super) says: String,
    /// What kstatus is to say.
    pub(super) kstatus: String,
    pub(super) object: Value,
}

pub(super) fn all() -> Vec<Recorded> {
    let objects: Vec<Recorded> = serde_saphyr::from_str(include_str!("objects.yaml")).unwrap();
    assert!(objects.len() > 40);
    objects
}

impl Recorded {
    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap()
    }

    pub(super) fn group(&self) -> &str {
        let api_version = self.object["apiVersion"].as_str().unwrap();
        api_version.split_once('/').unwrap().0
    }

    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.kind(), self.what)
    }
}
