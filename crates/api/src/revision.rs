//! A ControllerRevision as controllers read it: what a workload looked like at one time.

use serde::Deserialize;

use crate::meta::{Meta, known};
use crate::raw::AnyJson;
use crate::wire::or_empty;

/// What controllers read of a ControllerRevision. For reading only: it is changed with patches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Name, labels, owners and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// Position in the history; the highest is the newest.
    #[serde(deserialize_with = "or_empty")]
    pub revision: i64,
    /// What the workload looked like.
    pub data: AnyJson,
}

projection!(ControllerRevision, of: k8s_openapi::api::apps::v1::ControllerRevision);

impl ControllerRevision {
    /// Name of the revision.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_revision_then_its_data_is_kept_as_it_was_written() {
        let json =
            r#"{"kind":"ControllerRevision","metadata":{"name":"web-1"},"revision":3,"data":{"b":1,"a":"\u003c"}}"#;
        let read: ControllerRevision = serde_json::from_str(json).unwrap();
        assert_eq!((read.name(), read.revision), ("web-1", 3));
        assert_eq!(read.data.json(), r#"{"b":1,"a":"\u003c"}"#);
        assert!(
            serde_json::from_str::<ControllerRevision>("{}")
                .unwrap()
                .data
                .is_empty()
        );
    }
}
