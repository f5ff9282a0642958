//! What the daemon's workers share: the node, its runtimes, one door for writes, events, metrics.

use std::time::Duration;

use kruise_api::gates::Gates;
use kruise_api::names::component::DAEMON_USER_AGENT;
use kruise_cri::Runtimes;
use kruise_runtime::controller::{Controller, ControllerMetrics};
use kruise_runtime::events::{self, EventWriter, Recorder};
use kruise_runtime::expectations::{ExpectationMetrics, Expectations};
use kruise_runtime::lease::Leadership;
use kruise_runtime::queue::{Limits, Queue, QueueMetrics};
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::writer::{Writer, WriterMetrics, WriterOptions};
use kube::Client;
use prometheus::Registry;

use crate::Settings;

/// Requests per second and at once, when the flags do not say.
const DEFAULT_RATE: (f64, u32) = (20.0, 30);
/// Pauses after failures of one key.
pub(crate) const PAUSES: Limits = Limits {
    base_delay: Duration::from_millis(500),
    max_delay: Duration::from_secs(50),
    rate: 0.0,
    burst: 1,
};

/// What workers share.
pub(crate) struct Platform {
    node: String,
    gates: Gates,
    client: Client,
    runtimes: Runtimes,
    writer: Writer,
    recorder: Recorder,
    queues: QueueMetrics,
    controllers: ControllerMetrics,
    expectations: ExpectationMetrics,
}

impl Platform {
    /// Everything but the watches, and the writer of events, which has to be run.
    pub(crate) fn new(
        settings: &Settings,
        client: Client,
        runtimes: Runtimes,
        registry: &Registry,
    ) -> prometheus::Result<(Self, EventWriter)> {
        let flags = &settings.flags;
        let options = WriterOptions {
            rate: Some(rate(flags.rest_config_qps, flags.rest_config_burst)),
            ..WriterOptions::new(DAEMON_USER_AGENT)
        };
        // There is one daemon on a node: nobody to agree with.
        let writer = Writer::new(
            client.clone(),
            Leadership::always(),
            options,
            WriterMetrics::new(registry)?,
        );
        let (recorder, events) = events::recorder(writer.named("events"), DAEMON_USER_AGENT, &settings.node, registry)?;
        let platform = Self {
            node: settings.node.clone(),
            gates: settings.gates,
            client,
            runtimes,
            writer,
            recorder,
            queues: QueueMetrics::new(registry)?,
            controllers: ControllerMetrics::new(registry)?,
            expectations: ExpectationMetrics::new(registry)?,
        };
        Ok((platform, events))
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Which features are on.
    pub(crate) fn gates(&self) -> Gates {
        self.gates
    }

    /// For reads that no watch covers.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The container runtimes of the node.
    pub(crate) fn runtimes(&self) -> &Runtimes {
        &self.runtimes
    }

    /// The door for writes, under the name of a worker.
    pub(crate) fn writer(&self, worker: &str) -> Writer {
        self.writer.named(worker)
    }

    /// Tells people what happened, under the name of a worker.
    pub(crate) fn recorder(&self, source: &str) -> Recorder {
        self.recorder.named(source)
    }

    /// A queue for a worker.
    pub(crate) fn queue(&self, worker: &str, limits: Limits) -> Queue<ObjectKey> {
        Queue::new(worker, limits, &self.queues)
    }

    /// The loop that works off a queue.
    pub(crate) fn controller(&self, worker: &str, queue: &Queue<ObjectKey>, workers: usize) -> Controller {
        Controller::new(worker, queue.clone(), workers, &self.controllers)
    }

    /// The writes of a worker that the cache does not show yet.
    pub(crate) fn expectations(&self, worker: &str, patience: Duration) -> Expectations {
        Expectations::new(worker, patience, &self.expectations)
    }
}

fn rate(qps: i64, burst: i64) -> (f64, u32) {
    let number = |given: i64| u32::try_from(given).ok().filter(|given| *given > 0);
    (
        number(qps).map_or(DEFAULT_RATE.0, f64::from),
        number(burst).unwrap_or(DEFAULT_RATE.1),
    )
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn given_no_rate_then_there_is_one_all_the_same() {
        assert_eq!(rate(0, 0), (20.0, 30));
        assert_eq!(rate(-1, 7), (20.0, 7));
        assert_eq!(rate(5, 10), (5.0, 10));
    }
}
