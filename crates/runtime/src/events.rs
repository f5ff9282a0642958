//! Events that users see in `kubectl describe`.
//!
//! - The same event again raises a counter; it does not make a second object.
//! - When ten different messages of one reason come for one object within ten minutes, the tenth and the rest are folded into one event,
//!   `(combined from similar events): …`.
//! - One object gets at most 25 events at once and one more every five minutes.
//! - Recording never waits and never fails. What cannot be written is dropped and counted.
//!
//! Events are of the core group, as the published rights allow no other. The rules are client-go's, so that what users know holds.

mod correlate;
mod recent;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kruise_api::kind::Kind as _;
use kruise_api::resource::{Preconditions, Resource};
pub use kruise_core::plan::EventType;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Class, Error};
use crate::writer::{Patch, Target, Writer};
use correlate::Correlator;

/// Events that wait to be written. More than that are dropped.
const WAITING: usize = 1000;
/// Attempts to write one event.
const ATTEMPTS: u32 = 3;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(500);
/// How long the last events may take when the process stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Group and version.
    pub api_version: String,
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Version that was looked at; may be empty.
    pub resource_version: String,
    /// The part of the object that is meant, `spec.containers{main}`; empty for the whole.
    pub field_path: String,
}

impl Regarding {
    /// An object of a kind.
    pub fn new(resource: &Resource, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: resource.api_version.to_owned(),
            kind: resource.kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: String::new(),
            field_path: String::new(),
        }
    }

    /// A part of it.
    #[must_use]
    pub fn part(self, field_path: impl Into<String>) -> Self {
        Self {
            field_path: field_path.into(),
            ..self
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({ "apiVersion": self.api_version, "kind": self.kind, "name": self.name });
        for (field, value) in [
            ("namespace", &self.namespace),
            ("uid", &self.uid),
            ("resourceVersion", &self.resource_version),
            ("fieldPath", &self.field_path),
        ] {
            if !value.is_empty() {
                json[field] = value.as_str().into();
            }
        }
        json
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Happened {
    component: Arc<str>,
    regarding: Regarding,
    event_type: EventType,
    reason: String,
    message: String,
}

/// Records events under the name of a component. Clones record to the same place.
#[derive(Clone)]
pub struct Recorder {
    component: Arc<str>,
    send: mpsc::Sender<Happened>,
    full: IntCounter,
}

/// Writes what recorders record. Has to be run.
pub struct EventWriter {
    receive: mpsc::Receiver<Happened>,
    writer: Writer,
    host: String,
    correlator: Correlator,
    written: IntCounter,
    dropped: IntCounterVec,
}

/// Returns a recorder and the writer behind it. `host` is the node's name, for components that live on one.
///
/// The writer should have a right to write of its own: what happened is worth telling even when the lease is lost.
pub fn recorder(
    writer: Writer,
    component: &str,
    host: &str,
    registry: &Registry,
) -> prometheus::Result<(Recorder, EventWriter)> {
    let dropped = IntCounterVec::new(
        Opts::new("kruise_events_dropped_total", "Events that were not written, by why."),
        &["why"],
    )?;
    let written = IntCounter::new("kruise_events_written_total", "Events that were written or counted up.")?;
    registry.register(Box::new(dropped.clone()))?;
    registry.register(Box::new(written.clone()))?;
    let (send, receive) = mpsc::channel(WAITING);
    let recorder = Recorder {
        component: component.into(),
        send,
        full: dropped.with_label_values(&["too-many-waiting"]),
    };
    let events = EventWriter {
        receive,
        writer,
        host: host.to_owned(),
        correlator: Correlator::default(),
        written,
        dropped,
    };
    Ok((recorder, events))
}

impl Recorder {
    /// The same under another name.
    #[must_use]
    pub fn named(&self, component: &str) -> Self {
        Self {
            component: component.into(),
            ..self.clone()
        }
    }

    /// Records good news.
    pub fn normal(&self, regarding: &Regarding, reason: &str, message: impl Into<String>) {
        self.record(regarding, EventType::Normal, reason, message.into());
    }

    /// Records bad news.
    pub fn warning(&self, regarding: &Regarding, reason: &str, message: impl Into<String>) {
        self.record(regarding, EventType::Warning, reason, message.into());
    }

    /// Records an event.
    pub fn record(&self, regarding: &Regarding, event_type: EventType, reason: &str, message: String) {
        let happened = Happened {
            component: self.component.clone(),
            regarding: regarding.clone(),
            event_type,
            reason: reason.to_owned(),
            message,
        };
        if self.send.try_send(happened).is_err() {
            self.full.inc();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.component)
    }
}

impl EventWriter {
    /// Writes until `stop`, and then for a moment what still waits.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let happened = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                happened = self.receive.recv() => happened,
            };
            match happened {
                Some(happened) => {
                    let write = self.write(happened);
                    tokio::select! {
                        () = write => {}
                        () = stopped_for(&stop, LAST_WORDS) => return,
                    }
                }
                // No recorder is left.
                None => return,
            }
        }
        self.receive.close();
        let rest = async {
            while let Some(happened) = self.receive.recv().await {
                self.write(happened).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }

    async fn write(&mut self, happened: Happened) {
        let now = Timestamp::now();
        let verdict = self.correlator.judge(&happened, now, Instant::now().into_std());
        let Some(event) = verdict else {
            self.dropped.with_label_values(&["too-many-for-one-object"]).inc();
            return;
        };
        for attempt in 1..=ATTEMPTS {
            let result = if event.seen_before {
                self.count_up(&happened, &event).await
            } else {
                self.create(&happened, &event).await
            };
            match result {
                Ok(()) => {
                    self.correlator.wrote(&event);
                    self.written.inc();
                    return;
                }
                Err(error) if error.class() == Class::Transient && attempt < ATTEMPTS => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                Err(error) => {
                    self.dropped.with_label_values(&["not-written"]).inc();
                    tracing::debug!(reason = happened.reason, regarding = ?happened.regarding, "an event was not written: {error}");
                    return;
                }
            }
        }
    }

    async fn count_up(&self, happened: &Happened, event: &correlate::Event) -> Result<(), Error> {
        let patch = json!({ "count": event.count, "lastTimestamp": event.last.to_string(), "message": event.message });
        let namespace = namespace(&happened.regarding);
        let target = Target::new(Event::RESOURCE, namespace, &event.name);
        match self
            .writer
            .patch(&target, Patch::Strategic(patch), &Preconditions::NONE)
            .await
        {
            // The server keeps events for an hour or so.
            Err(error) if error.class() == Class::Gone => self.create(happened, event).await,
            other => other.map(drop),
        }
    }

    async fn create(&self, happened: &Happened, event: &correlate::Event) -> Result<(), Error> {
        let namespace = namespace(&happened.regarding);
        let mut source = json!({ "component": &*happened.component });
        if !self.host.is_empty() {
            source["host"] = self.host.as_str().into();
        }
        let object = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": event.name, "namespace": namespace },
            "involvedObject": happened.regarding.json(),
            "reason": happened.reason,
            "message": event.message,
            "type": happened.event_type.as_str(),
            "source": source,
            "firstTimestamp": event.first.to_string(),
            "lastTimestamp": event.last.to_string(),
            "count": event.count,
            "reportingComponent": &*happened.component,
            "reportingInstance": self.host,
        });
        self.writer
            .create(Event::RESOURCE, namespace, object.to_string())
            .await
            .map(drop)
    }
}

/// Waits for a stop, and then a little longer.
async fn stopped_for(stop: &CancellationToken, time: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(time).await;
}

/// Events about objects of the cluster are kept where Kubernetes keeps them.
fn namespace(regarding: &Regarding) -> &str {
    match regarding.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

impl fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventWriter")
    }
}
