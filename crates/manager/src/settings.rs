//! Everything that is fixed when the process starts: flags, environment and feature gates, read and checked once.
//!
//! What makes no sense ends the process with a message that names the flag or variable. What only looks wrong and has
//! a safe meaning becomes a notice in the log.

mod derived;
mod environment;

pub use environment::{Environment, VARIABLES, Variable};

use crate::{Flags, cli::ElectionFlags};
use kruise_api::gates::{GateError, Gates};
use kruise_core::state_metrics::{Options, OptionsError};
use kruise_runtime::{
    flags::parse_duration,
    logging::{Format, LoggingError},
};
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

/// Resync of the original when nothing is said.
const DEFAULT_RESYNC: Duration = Duration::from_hours(10);
/// Seconds an image pull task with policy `Always` may live: up to 31 days.
const NODE_IMAGE_TTL: RangeInclusive<i64> = 0..=2_678_400;
/// Lock kinds of older releases.
const OLD_LOCKS: [&str; 4] = ["configmaps", "configmapsleases", "endpoints", "endpointsleases"];

/// What the process goes by.
#[derive(Debug, Clone)]
pub struct Settings {
    pub flags: Flags,
    pub environment: Environment,
    pub gates: Gates,
    /// What is told about objects.
    pub state_metrics: Arc<Options>,
    pub log_format: Format,
    /// How often every object is looked at without a change; `None` is never.
    pub resync: Option<Duration>,
    /// What the user should read once in the log.
    pub notices: Vec<String>,
}

/// Why the process cannot start like this.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("--feature-gates: {0}")]
    Gates(#[from] GateError),
    #[error("{0}")]
    LogFormat(String),
    #[error("--default-ttlseconds-for-always-nodeimage={0}: must be from 0 to 2678400 seconds (31 days)")]
    NodeImageTtl(i64),
    #[error("{name}={value:?}: {rule}")]
    Variable {
        name: &'static str,
        value: String,
        rule: &'static str,
    },
    #[error("{flag}: {error}")]
    StateMetrics { flag: &'static str, error: OptionsError },
    #[error("--leader-election-resource-lock={0}: unknown kind of lock, use leases")]
    Lock(String),
    #[error("--{longer} ({longer_value:?}) must be longer than --{shorter} ({shorter_value:?}){margin}")]
    Lease {
        longer: &'static str,
        longer_value: Duration,
        shorter: &'static str,
        shorter_value: Duration,
        margin: &'static str,
    },
}

impl From<LoggingError> for SettingsError {
    fn from(error: LoggingError) -> Self {
        Self::LogFormat(error.to_string())
    }
}

impl Settings {
    /// Puts flags and environment together; `variable` gives the value of an environment variable.
    pub fn read(flags: Flags, variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let mut notices = Vec::new();
        let log_format = flags.log.logging_format.parse()?;
        let environment = Environment::read(variable, &mut notices)?;
        let (gates, about_gates) = Gates::parse(
            &flags.process.feature_gates.join(","),
            environment.custom_resource_enable.as_deref(),
        )?;
        notices.extend(about_gates.iter().map(ToString::to_string));
        let ttl = flags.rules.default_ttlseconds_for_always_nodeimage;
        if !NODE_IMAGE_TTL.contains(&ttl) {
            return Err(SettingsError::NodeImageTtl(ttl));
        }
        check_election(&flags.election, &mut notices)?;
        let state_metrics = flags
            .state_metrics
            .options()
            .map_err(|(flag, error)| SettingsError::StateMetrics { flag, error })?;
        let resync = resync(&flags.api.sync_period, &mut notices);
        Ok(Self {
            flags,
            environment,
            gates,
            state_metrics: Arc::new(state_metrics),
            log_format,
            resync,
            notices,
        })
    }
}

fn check_election(flags: &ElectionFlags, notices: &mut Vec<String>) -> Result<(), SettingsError> {
    if !flags.enable_leader_election {
        return Ok(());
    }
    let lock = flags.leader_election_resource_lock.as_str();
    if OLD_LOCKS.contains(&lock) {
        notices.push(format!(
            "--leader-election-resource-lock={lock} is no longer supported, leases is used; \
             a replica that still uses {lock} does not see this one"
        ));
    } else if lock != "leases" {
        return Err(SettingsError::Lock(lock.to_owned()));
    }
    let lease = flags.leader_election_lease_duration;
    let renew = flags.leader_election_renew_deadline;
    let retry = flags.leader_election_retry_period;
    if lease <= renew {
        return Err(SettingsError::Lease {
            longer: "leader-election-lease-duration",
            longer_value: lease,
            shorter: "leader-election-renew-deadline",
            shorter_value: renew,
            margin: "",
        });
    }
    // The pause is stretched by up to a fifth, and the leader must be able to try again before its deadline.
    if renew <= retry.saturating_mul(6) / 5 {
        return Err(SettingsError::Lease {
            longer: "leader-election-renew-deadline",
            longer_value: renew,
            shorter: "leader-election-retry-period",
            shorter_value: retry,
            margin: " by more than a fifth",
        });
    }
    Ok(())
}

fn resync(text: &str, notices: &mut Vec<String>) -> Option<Duration> {
    if text.is_empty() {
        return Some(DEFAULT_RESYNC);
    }
    match parse_duration(text) {
        Ok(Duration::ZERO) => None,
        Ok(period) => Some(period),
        Err(reason) => {
            notices.push(format!("--sync-period: {reason}; {DEFAULT_RESYNC:?} is used"));
            Some(DEFAULT_RESYNC)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::gates::Gate;
    use kruise_runtime::flags::parse;

    fn settings(args: &[&str], variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let flags = parse(["manager"].iter().chain(args)).expect("flags");
        Settings::read(flags, |name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn given_nothing_then_defaults_and_no_notice() {
        let settings = settings(&[], &[]).expect("valid");
        assert_eq!(settings.gates, Gates::default());
        assert_eq!(settings.log_format, Format::Text);
        assert_eq!(settings.resync, Some(Duration::from_hours(10)));
        assert_eq!(settings.notices, Vec::<String>::new());
    }

    #[test]
    fn given_sync_periods_then_zero_is_never_and_nonsense_is_the_default_with_a_notice() {
        let period = |text: &str| {
            let settings = settings(&[&format!("--sync-period={text}")], &[]).expect("valid");
            (settings.resync.map(|period| period.as_secs()), settings.notices.len())
        };
        assert_eq!(period("0"), (None, 0));
        assert_eq!(period("90s"), (Some(90), 0));
        assert_eq!(period("soon"), (Some(36_000), 1));
        assert_eq!(period("-5s"), (Some(36_000), 1));
    }

    #[test]
    fn given_gates_in_several_flags_then_they_add_up_and_forced_values_are_told() {
        let on = |settings: &Settings, gate| settings.gates.enabled(gate);
        let both = settings(
            &[
                "--feature-gates=CloneSetShortHash=true",
                "--feature-gates=AllBeta=false",
            ],
            &[],
        )
        .expect("valid");
        assert!(on(&both, Gate::CloneSetShortHash) && !on(&both, Gate::PodWebhook));
        let forced = settings(&["--feature-gates=PreDownloadImageForDaemonSetUpdate=true"], &[]).expect("valid");
        assert!(on(&forced, Gate::ImagePullJobGate));
        assert!(
            forced.notices.iter().any(|notice| notice.contains("ImagePullJobGate")),
            "{:?}",
            forced.notices
        );
        let legacy = settings(&[], &[("CUSTOM_RESOURCE_ENABLE", "CloneSet")]).expect("valid");
        assert!(!on(&legacy, Gate::PodWebhook));
    }

    #[test]
    fn given_what_makes_no_sense_then_the_message_says_which_flag() {
        let table = [
            ("--feature-gates=NoSuchGate=true", "NoSuchGate"),
            ("--feature-gates=PodWebhook=perhaps", "PodWebhook"),
            ("--logging-format=xml", "--logging-format=xml"),
            ("--default-ttlseconds-for-always-nodeimage=2678401", "2678401"),
            ("--default-ttlseconds-for-always-nodeimage=-1", "-1"),
            ("--leader-election-resource-lock=paper", "paper"),
            (
                "--leader-election-lease-duration=10s",
                "--leader-election-lease-duration",
            ),
            ("--leader-election-retry-period=9s", "--leader-election-retry-period"),
        ];
        for (flag, part) in table {
            let message = settings(&[flag], &[]).expect_err(flag).to_string();
            assert!(message.contains(part), "{flag}: {message}");
        }
        assert!(settings(&["--default-ttlseconds-for-always-nodeimage=2678400"], &[]).is_ok());
    }

    #[test]
    fn given_an_old_lock_then_it_is_accepted_with_a_notice_and_without_election_nothing_is_checked() {
        let old = settings(&["--leader-election-resource-lock=configmapsleases"], &[]).expect("valid");
        assert_eq!(old.notices.len(), 1);
        let off = ["--enable-leader-election=false", "--leader-election-lease-duration=1s"];
        assert!(settings(&off, &[]).is_ok());
    }
}
