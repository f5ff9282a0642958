//! What is sent to readers: events of a stream, each encoded once however many readers there are.
//!
//! An event is the text that browsers know as a server-sent event: its name, and an object in one line. It carries the right that somebody needs to see it.

use super::access::Right;
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;

/// One event, and who may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) right: Right,
    /// Namespace in which the right is needed; empty for objects of the cluster.
    pub(super) namespace: Box<str>,
    pub(super) bytes: Bytes,
}

impl Frame {
    pub(super) fn new(right: Right, namespace: &str, event: &str, data: &impl Serialize) -> Self {
        Self {
            right,
            namespace: namespace.into(),
            bytes: encode(event, data),
        }
    }

    /// Says that an object is no more.
    pub(super) fn gone(right: Right, namespace: &str, name: &str) -> Self {
        let kind = right.resource.kind;
        let gone = Gone { kind, namespace, name };
        Self::new(right, namespace, "gone", &gone)
    }
}

#[derive(Serialize)]
struct Gone<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// The text of an event. JSON has no line breaks of its own.
pub(super) fn encode(event: &str, data: &impl Serialize) -> Bytes {
    // Views are plain structs, which can always be written.
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    format!("event: {event}\ndata: {data}\n\n").into()
}

/// What a reader gets from the hub.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Changes, the same memory for all readers.
    Frames(Arc<[Frame]>),
    /// Too much has changed: the reader is to begin anew.
    Again,
}
