//! Standing for election, and what the leader does.
//!
//! At a stop the order is: controllers begin nothing new and finish what they are at, then the lease is given back. A successor waits for that, so controllers
//! get a second and no more; what they write after it is refused, and done by the successor.

use crate::{Settings, controllers::ControllerHandle};
use anyhow::Result;
use kruise_runtime::{
    cache::Syncing,
    events::Recorder,
    lease::{Leadership, Lease, LeaseError, LeaseMetrics},
    shutdown::{CancellationToken, Tasks},
    writer::WriterMetrics,
};
use kube::Client;
use prometheus::Registry;
use std::{pin::pin, time::Duration};
use tokio::{task::JoinSet, time::timeout};
use tracing::info;

/// How long controllers may take to finish before the lease is given back.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// The part of the process that only one replica does.
pub(super) struct Leading {
    lease: Option<Lease>,
    leadership: Leadership,
}

impl Leading {
    /// A candidate. The lease has connections of its own, made by `dial`.
    pub(super) fn new(
        settings: &Settings,
        registry: &Registry,
        writes: WriterMetrics,
        dial: impl FnOnce() -> kube::Result<Client>,
    ) -> Result<Self> {
        let gauges = LeaseMetrics::new(registry, &settings.flags.election.leader_election_id)?;
        let Some(options) = settings.lease() else {
            gauges.leads(true);
            return Ok(Self {
                lease: None,
                leadership: Leadership::always(),
            });
        };
        let lease = Lease::new(dial()?, options, gauges, writes)?;
        Ok(Self {
            leadership: lease.leadership(),
            lease: Some(lease),
        })
    }

    /// The right to write of this replica.
    pub(super) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Lets people know of a new leader.
    pub(super) fn record_events(&mut self, recorder: &Recorder) {
        self.lease = self.lease.take().map(|lease| lease.record_events(recorder));
    }

    /// Stands for election, and runs the controllers once elected and once the cache is complete.
    pub(super) fn spawn(self, tasks: &mut Tasks, handles: Vec<ControllerHandle>, synced: Syncing, patience: Duration) {
        let stop = tasks.stop().clone();
        let finished = CancellationToken::new();
        if let Some(lease) = self.lease {
            tasks.spawn("lease", hold(lease, stop.clone(), finished.clone()));
        }
        let leadership = self.leadership;
        tasks.spawn("controllers", async move {
            // However this ends, the lease is not kept waiting.
            let _finished = finished.drop_guard();
            let begin = async {
                synced.within(patience).await.map_err(|late| late.to_string())?;
                leadership.acquired().await;
                Ok::<_, String>(())
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                begun = begin => begun?,
            }
            work(handles, stop).await
        });
    }
}

/// Keeps the lease until the controllers have finished after a stop.
async fn hold(lease: Lease, stop: CancellationToken, finished: CancellationToken) -> Result<(), LeaseError> {
    let give_back = CancellationToken::new();
    let mut held = pin!(lease.run(give_back.clone()));
    tokio::select! {
        ended = &mut held => return ended,
        () = stop.cancelled() => {}
    }
    tokio::select! {
        ended = &mut held => return ended,
        _ = timeout(LAST_WRITES, finished.cancelled()) => {}
    }
    give_back.cancel();
    held.await
}

/// Runs all controllers until `stop`.
async fn work(handles: Vec<ControllerHandle>, stop: CancellationToken) -> Result<(), String> {
    let names: Vec<_> = handles.iter().map(ControllerHandle::name).collect();
    info!("controllers start: {}", names.join(", "));
    let mut running = JoinSet::new();
    for handle in handles {
        let (name, stop) = (handle.name(), stop.clone());
        running.spawn(async move {
            handle.run(stop).await;
            name
        });
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        Some(ended) = running.join_next() => return Err(match ended {
            Ok(name) => format!("{name} ended although nobody asked it to"),
            Err(panic) => format!("a controller failed: {panic}"),
        }),
    }
    while running.join_next().await.is_some() {}
    Ok(())
}
