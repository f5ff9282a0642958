//! Only one replica works at a time: leader election by a Lease object, in the same way as client-go does it.
//!
//! - The Lease names who holds it, since when, and when it was last renewed. Whoever sees that it did not change for its whole
//!   duration may take it. The times in it are for people: each replica goes by its own steady clock, so clocks may differ.
//! - The holder renews it every retry period (2 s). When that fails for the renew deadline (10 s), or somebody else holds it, the lease is
//!   lost and the process must end: [`Lease::run`] returns an error. Writes are refused from that moment on by [`Leadership`], which also
//!   holds when this task does not get to run.
//! - Replicas that wait watch the Lease. They take it at the moment at which it is given back or runs out.
//! - At a stop the lease is given back: no further write is let through, those in flight are waited for, then the holder is emptied.
//!   A successor does not have to wait for the lease to run out.
//!
//! Use a client of its own, so that a queue of other requests cannot make a renewal late.

mod leadership;
mod options;
mod record;

use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kruise_api::kind::Kind as _;
use kruise_api::resource::Preconditions;
use kube::Client;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub use leadership::{Leadership, Permit};
pub use options::{LeaseError, LeaseMetrics, LeaseOptions, identity};

use crate::cache::{ListWatchEvent, Selection, list_watch};
use crate::error::{Class, Error};
use crate::events::{Recorder, Regarding};
use crate::writer::{Patch, Target, Writer, WriterMetrics, WriterOptions, Written};
use record::{Observed, Record};

/// How long writes in flight may take before the lease is given back.
const PATIENCE: Duration = Duration::from_secs(5);

/// One candidate for the lease.
pub struct Lease {
    client: Client,
    writer: Writer,
    options: LeaseOptions,
    leadership: Leadership,
    recorder: Option<Recorder>,
    metrics: LeaseMetrics,
    observed: Observed,
    /// When we last heard of the Lease.
    heard: Option<Instant>,
    /// When the last successful renewal was sent.
    renewed: Instant,
}

/// What became of an attempt to take or renew the lease.
enum Attempt {
    Ours,
    Theirs,
    Failed(Error),
}

impl Lease {
    /// A candidate. `client` should be used for nothing else.
    pub fn new(
        client: Client,
        options: LeaseOptions,
        metrics: LeaseMetrics,
        writer_metrics: WriterMetrics,
    ) -> Result<Self, LeaseError> {
        options.check()?;
        let mut writer_options = WriterOptions::new(&options.component);
        // Half of the deadline, so that one call that hangs leaves time for another.
        writer_options.deadline = options.renew_deadline / 2;
        let writer = Writer::new(client.clone(), Leadership::always(), writer_options, writer_metrics);
        Ok(Self {
            client,
            writer: writer.named("leader-election"),
            observed: Observed::new(&options.identity, options.lease_duration),
            options,
            leadership: Leadership::none_yet(),
            recorder: None,
            metrics,
            heard: None,
            renewed: Instant::now(),
        })
    }

    /// Tells people about changes of the leader.
    #[must_use]
    pub fn record_events(mut self, recorder: &Recorder) -> Self {
        self.recorder = Some(recorder.named(&self.options.identity));
        self
    }

    /// Returns the right to write that this lease gives.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits for the lease and keeps it until `stop`, then gives it back. An error means that the process has to end now.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeaseError> {
        let acquired = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            acquired = self.acquire() => Some(acquired),
        };
        let Some(acquired) = acquired else {
            self.leadership.end();
            self.give_back().await;
            return Ok(());
        };
        tracing::info!(lease = %self.options.name, identity = self.options.identity, "this replica leads");
        self.record(&acquired, "became leader");
        self.metrics.leads(true);
        let end = tokio::select! {
            () = stop.cancelled() => Ok(()),
            lost = self.keep() => Err(LeaseError::Lost(lost)),
        };
        self.leadership.end();
        self.metrics.leads(false);
        match &end {
            Ok(()) => self.give_back().await,
            Err(lost) => tracing::error!("{lost}"),
        }
        self.record(&self.observed.written(), "stopped leading");
        end
    }

    /// Waits until the lease is ours.
    async fn acquire(&mut self) -> Written {
        let mut news = self.watch();
        loop {
            let now = Instant::now();
            let held_until = self.observed.held_by_other_until(now);
            // While the watch tells of renewals there is no need to ask.
            let silent = self
                .heard
                .is_none_or(|heard| now >= heard + 2 * self.options.retry_period);
            let mut next_look = now + self.options.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64());
            if held_until.is_none() || silent {
                match self.attempt().await {
                    Attempt::Ours => return self.observed.written(),
                    Attempt::Theirs => {}
                    Attempt::Failed(error) => {
                        tracing::warn!(lease = %self.options.name, "cannot take the lease: {error}");
                    }
                }
                next_look = Instant::now() + self.options.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64());
            }
            if let Some(until) = self.observed.held_by_other_until(Instant::now()) {
                next_look = next_look.min(until);
            }
            tokio::select! {
                () = sleep_until(next_look) => {}
                Some(lease) = news.next() => self.on_event(lease),
            }
        }
    }

    /// Renews the lease until that fails for too long; returns why.
    async fn keep(&mut self) -> String {
        let mut pause = self.options.retry_period;
        loop {
            let give_up = self.renewed + self.options.renew_deadline;
            sleep_until((Instant::now() + pause).min(give_up)).await;
            if Instant::now() >= give_up {
                return format!("it could not be renewed for {:?}", self.options.renew_deadline);
            }
            match timeout(give_up.saturating_duration_since(Instant::now()), self.attempt()).await {
                Ok(Attempt::Ours) => pause = self.options.retry_period,
                Ok(Attempt::Theirs) => return format!("{:?} holds it now", self.observed.holder()),
                Ok(Attempt::Failed(error)) => {
                    tracing::warn!(lease = %self.options.name, "cannot renew the lease: {error}");
                    pause = self.options.retry_period / 2;
                }
                Err(_) => {}
            }
        }
    }

    /// One attempt to take or renew the lease.
    async fn attempt(&mut self) -> Attempt {
        let sent = Instant::now();
        match self.try_attempt().await {
            Ok(true) => {
                self.renewed = sent;
                self.leadership
                    .renewed(sent, self.options.renew_deadline, self.options.lease_duration);
                Attempt::Ours
            }
            Ok(false) => Attempt::Theirs,
            Err(error) => Attempt::Failed(error),
        }
    }

    async fn try_attempt(&mut self) -> Result<bool, Error> {
        // A holder knows what it wrote last and need not look first.
        if self.observed.is_ours() {
            match self.write().await {
                Err(error) if matches!(error.class(), Class::Conflict | Class::Gone) => {}
                other => return other.map(|()| true),
            }
        }
        self.look().await?;
        if self.observed.held_by_other_until(Instant::now()).is_some() {
            return Ok(false);
        }
        match self.write().await {
            Ok(()) => Ok(true),
            // Somebody was quicker.
            Err(error) if error.class() == Class::Conflict => {
                self.look().await?;
                Ok(self.observed.is_ours())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the Lease.
    async fn look(&mut self) -> Result<(), Error> {
        let path = format!(
            "{}/{}",
            LeaseObject::RESOURCE.path(&self.options.namespace),
            self.options.name
        );
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| Error::new(Class::Permanent, error.to_string()))?;
        let answer = timeout(self.options.renew_deadline / 2, self.client.request::<Record>(request)).await;
        match answer {
            Ok(Ok(record)) => self.observed.see(Some(record), Instant::now()),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => self.observed.see(None, Instant::now()),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(Error::new(Class::Transient, "the API server did not answer in time")),
        }
        self.heard = Some(Instant::now());
        Ok(())
    }

    /// Writes us as the holder, if the Lease is still as we last saw it.
    async fn write(&mut self) -> Result<(), Error> {
        let next = self.observed.renewal(jiff::Timestamp::now());
        let written = if let Some(version) = self.observed.version() {
            let spec = Patch::Merge(json!({ "spec": next.spec }));
            let conditions = Preconditions::NONE.at(version);
            self.writer.patch(&self.target(), spec, &conditions).await?
        } else {
            let object = json!({
                "apiVersion": LeaseObject::API_VERSION, "kind": LeaseObject::KIND,
                "metadata": { "name": self.options.name, "namespace": self.options.namespace },
                "spec": next.spec,
            });
            self.writer
                .create(LeaseObject::RESOURCE, &self.options.namespace, object.to_string())
                .await?
        };
        self.observed.wrote(next, written, Instant::now());
        Ok(())
    }

    /// Empties the holder, once no write of ours is in flight any more.
    async fn give_back(&mut self) {
        if !self.leadership.quiet(PATIENCE).await {
            tracing::warn!("a write is still in flight: the lease is left to run out");
            return;
        }
        // The stop may have cut off a renewal of ours, so it is looked at first.
        for _ in 0..3 {
            match self.try_give_back().await {
                Ok(()) => return,
                Err(error) if error.class() == Class::Conflict => {}
                Err(error) => {
                    tracing::warn!(lease = %self.options.name, "cannot give the lease back: {error}");
                    return;
                }
            }
        }
    }

    async fn try_give_back(&mut self) -> Result<(), Error> {
        self.look().await?;
        let Some(version) = self.observed.version().filter(|_| self.observed.is_ours()) else {
            return Ok(());
        };
        let release = Patch::Merge(json!({ "spec": record::release(jiff::Timestamp::now()) }));
        let conditions = Preconditions::NONE.at(version);
        self.writer.patch(&self.target(), release, &conditions).await?;
        tracing::info!(lease = %self.options.name, "the lease is given back");
        Ok(())
    }

    fn watch(&self) -> BoxStream<'static, Record> {
        let pause = self.options.retry_period;
        let selection = Selection {
            path: LeaseObject::RESOURCE.path(&self.options.namespace),
            labels: None,
            fields: Some(format!("metadata.name={}", self.options.name)),
            page_size: 1,
            metadata_only: false,
            in_turns: false,
            deadline: self.options.renew_deadline / 2,
        };
        let records = list_watch(self.client.clone(), selection).filter_map(move |event| async move {
            match event {
                Ok(ListWatchEvent::Applied(lease) | ListWatchEvent::Listed(lease)) => lease.read().ok(),
                Ok(ListWatchEvent::Deleted(_)) => Some(Record::default()),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!("the watch of the lease failed: {error}");
                    sleep(pause).await;
                    None
                }
            }
        });
        records.boxed()
    }

    fn on_event(&mut self, record: Record) {
        let now = Instant::now();
        self.heard = Some(now);
        let there = !record.metadata.uid.is_empty();
        self.observed.see(there.then_some(record), now);
    }

    fn target(&self) -> Target<'_> {
        Target::new(LeaseObject::RESOURCE, &self.options.namespace, &self.options.name)
    }

    fn record(&self, lease: &Written, what: &str) {
        if let Some(recorder) = &self.recorder {
            let mut regarding = Regarding::new(
                LeaseObject::RESOURCE,
                &self.options.namespace,
                &self.options.name,
                &lease.uid,
            );
            regarding.resource_version.clone_from(&lease.resource_version);
            recorder.normal(
                &regarding,
                kruise_api::names::event::LEADER_ELECTION,
                format!("{} {what}", self.options.identity),
            );
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
