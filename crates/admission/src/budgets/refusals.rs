//! Telling what budgets refuse: an event on the Pod, a count, and a line in the record.
//!
//! A controller asks about the same Pods every second. Each of its refusals is counted, under the name of the manager, and one in a minute is written down for each
//! workload.

use crate::audit::Audit;
use kruise_api::{
    kind::Kind as _,
    names::{component::MANAGER_USER_AGENT, event},
    pod::Pod,
};
use kruise_runtime::events::{Recorder, Regarding};
use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// How often the refusals of one workload are written down for controllers.
const WRITTEN_EACH: Duration = Duration::from_mins(1);
/// Workloads that are remembered before old ones are forgotten.
const REMEMBERED: usize = 1000;

/// Who asks.
#[derive(Clone, Copy)]
pub(super) enum Asker<'a> {
    User {
        name: &'a str,
        dry_run: bool,
    },
    /// One of ours.
    Controller,
}

pub(super) struct Refusals {
    recorder: Recorder,
    audit: OnceLock<Audit>,
    /// When one was written down for a controller, by the UID of the owner of the Pods.
    written: Mutex<HashMap<String, Instant>>,
}

impl Refusals {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            audit: OnceLock::new(),
            written: Mutex::default(),
        }
    }

    pub(super) fn write_to(&self, audit: Audit) {
        // Set once, when the process starts.
        let _ = self.audit.set(audit);
    }

    pub(super) async fn record(&self, pod: &Pod, asker: Asker<'_>) {
        let meta = &pod.metadata;
        let regarding = Regarding::new(Pod::RESOURCE, &meta.namespace, &meta.name, &meta.uid.to_string());
        let message = "openkruise pub prevents pod deletion";
        self.recorder
            .warning(&regarding, event::BUDGET_PREVENTS_POD_DELETION, message);
        let Some(audit) = self.audit.get() else { return };
        let (user, is_written) = match asker {
            Asker::User { name, .. } => (name, true),
            Asker::Controller => (MANAGER_USER_AGENT, self.is_due(pod)),
        };
        audit.budget_refused(pod, user, is_written).await;
    }

    /// Whether a refusal is written down for a controller.
    fn is_due(&self, pod: &Pod) -> bool {
        let owner = pod.metadata.controller();
        let uid = owner.map_or(&pod.metadata.uid, |owner| &owner.uid).to_string();
        let now = Instant::now();
        let is_recent = |then: &Instant| now.duration_since(*then) < WRITTEN_EACH;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.get(&uid).is_some_and(is_recent) {
            return false;
        }
        if written.len() > REMEMBERED {
            written.retain(|_, then| is_recent(then));
        }
        written.insert(uid, now);
        true
    }
}
