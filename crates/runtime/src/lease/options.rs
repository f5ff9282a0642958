//! Which lease, how fast, and what is told about it.

use std::time::Duration;

use prometheus::{IntGauge, Opts, Registry};

/// Which lease, and how fast.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// The program, as it is called in the fields it manages and to the server.
    pub component: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Our name in it; has to be different for each replica.
    pub identity: String,
    /// How long others wait after the last renewal.
    pub lease_duration: Duration,
    /// How long we try to renew before we give up.
    pub renew_deadline: Duration,
    /// How often we renew.
    pub retry_period: Duration,
}

impl LeaseOptions {
    /// A lease with the usual times and an identity of this process.
    pub fn new(component: &str, namespace: &str, name: &str) -> Self {
        Self {
            component: component.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    pub(super) fn check(&self) -> Result<(), LeaseError> {
        let wrong = |what: &str| Err(LeaseError::Options(what.to_owned()));
        if self.lease_duration <= self.renew_deadline {
            return wrong("--leader-election-lease-duration must be longer than --leader-election-renew-deadline");
        }
        // As client-go has it: some of the period is left to chance.
        if self.renew_deadline <= self.retry_period.mul_f64(1.2) {
            return wrong(
                "--leader-election-renew-deadline must be longer than 1.2 times --leader-election-retry-period",
            );
        }
        if self.retry_period.is_zero() || self.lease_duration < Duration::from_secs(1) {
            return wrong(
                "--leader-election-retry-period and --leader-election-lease-duration must be at least 1ms and 1s",
            );
        }
        Ok(())
    }
}

/// Returns `<hostname>_<uuid>`.
pub fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// Why this process must not go on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The times do not fit together.
    #[error("{0}")]
    Options(String),
    /// The lease was ours and is no more.
    #[error("the lease is lost: {0}; this process has to end, another replica works on")]
    Lost(String),
}

/// Gauges that say whether this replica leads.
#[derive(Clone, Debug)]
pub struct LeaseMetrics {
    master: IntGauge,
    is_leader: IntGauge,
}

impl LeaseMetrics {
    /// Registers the gauges. `name` is that of the Lease.
    pub fn new(registry: &Registry, name: &str) -> prometheus::Result<Self> {
        let master = IntGauge::with_opts(
            Opts::new("leader_election_master_status", "1 while this replica holds the lease.")
                .const_label("name", name),
        )?;
        let is_leader = IntGauge::new("kruise_manager_is_leader", "1 while this replica leads, 0 elsewhere.")?;
        registry.register(Box::new(master.clone()))?;
        registry.register(Box::new(is_leader.clone()))?;
        Ok(Self { master, is_leader })
    }

    /// Says whether this replica leads. The lease does so by itself; a process without one says it once.
    pub fn leads(&self, leads: bool) {
        self.master.set(leads.into());
        self.is_leader.set(leads.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lease: u64, renew: u64, retry: u64) -> Result<(), LeaseError> {
        LeaseOptions {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
            ..LeaseOptions::new("test", "n", "lease")
        }
        .check()
    }

    #[test]
    fn given_times_that_do_not_fit_together_then_the_message_names_the_flags() {
        assert_eq!(check(15_000, 10_000, 2_000), Ok(()));
        for (lease, renew, retry, flag) in [
            (10_000, 10_000, 2_000, "--leader-election-lease-duration must be longer"),
            (15_000, 2_400, 2_000, "--leader-election-renew-deadline must be longer"),
            (900, 500, 100, "--leader-election-retry-period and"),
            (15_000, 10_000, 0, "--leader-election-retry-period and"),
        ] {
            let error = check(lease, renew, retry).expect_err("refused").to_string();
            assert!(error.starts_with(flag), "{error}");
        }
    }

    #[test]
    fn given_two_identities_then_they_differ_and_begin_with_the_host() {
        let (one, two) = (identity(), identity());
        assert_ne!(one, two);
        let (host, uuid) = one.rsplit_once('_').expect("two parts");
        assert!(!host.is_empty() && two.starts_with(&format!("{host}_")));
        assert_eq!(uuid.len(), 36);
    }
}
