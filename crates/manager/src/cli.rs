//! The command line of the manager: the flags of the original, under the same names and with the same defaults.
//!
//! Some flags tune mechanisms that only the original has; they are accepted, and their help says so.

mod state_metrics;
mod workers;

pub use state_metrics::StateMetricsFlags;
pub use workers::Workers;

use kruise_api::names::object;
use kruise_runtime::{
    flags::{Bind, parse_bind, parse_duration},
    logging::KlogFlags,
};
use std::{path::PathBuf, time::Duration};

/// What the command line says. Not yet checked as a whole: see [`crate::Settings`].
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "kruise-manager",
    version,
    about = "Runs the workload controllers and admission webhooks of kruise"
)]
pub struct Flags {
    #[command(flatten)]
    pub process: ProcessFlags,
    #[command(flatten)]
    pub election: ElectionFlags,
    #[command(flatten)]
    pub api: ApiFlags,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub state_metrics: StateMetricsFlags,
    #[command(flatten)]
    pub workers: Workers,
    #[command(flatten)]
    pub klog: KlogFlags,
    #[command(flatten)]
    pub log: LogFlags,
}

/// Ports, gates and files of the process.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessFlags {
    /// Where /metrics is served over plain HTTP; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = parse_bind)]
    pub metrics_addr: Bind,
    /// Where /healthz and /readyz are served; 0 turns them off
    #[arg(long, value_name = "ADDRESS", default_value = ":8000", value_parser = parse_bind)]
    pub health_probe_addr: Bind,
    /// Serve /debug/pprof/ (an index only: there is no Go profiler in this process)
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub enable_pprof: bool,
    /// Where /debug/pprof/ is served; an address that is taken is reported and not fatal
    #[arg(long, value_name = "ADDRESS", default_value = ":8090", value_parser = parse_bind)]
    pub pprof_addr: Bind,
    /// Where the live page is served, for example :8082; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_bind)]
    pub ui_addr: Bind,
    /// Features to switch on or off: `Gate=true,Other=false`; `AllAlpha` and `AllBeta` set a whole stage
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,
    /// Directory of protection.log, the record of refused deletions; it is created when missing
    #[arg(long, value_name = "DIR", default_value = "/log")]
    pub protection_log_path: PathBuf,
    /// How long the webhooks may take to get their certificate before the process gives up
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub webhook_initialize_timeout: Duration,
}

/// Which replica works.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionFlags {
    /// Let only one replica run the controllers
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub enable_leader_election: bool,
    /// Namespace of the Lease; empty means the namespace of the process
    #[arg(long, value_name = "NAMESPACE", default_value = object::SYSTEM_NAMESPACE)]
    pub leader_election_namespace: String,
    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = object::MANAGER_LEASE)]
    pub leader_election_id: String,
    /// Kind of the lock: only leases is supported, the older kinds are accepted with a warning
    #[arg(long, value_name = "KIND", default_value = "leases")]
    pub leader_election_resource_lock: String,
    /// How long others wait before they take over
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub leader_election_lease_duration: Duration,
    /// How long the leader tries to renew before it gives up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub leader_election_renew_deadline: Duration,
    /// Pause between two tries
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub leader_election_retry_period: Duration,
}

/// How the API server is used.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "API server")]
pub struct ApiFlags {
    /// Kubeconfig file; otherwise KUBECONFIG, the Pod's service account or the home directory is used
    #[arg(long, value_name = "FILE", default_value = "")]
    pub kubeconfig: String,
    /// Watch only this namespace; empty means all
    #[arg(long, value_name = "NAMESPACE", default_value = "")]
    pub namespace: String,
    /// How often every object is looked at without a change; empty means 10h, 0 means never
    #[arg(long, value_name = "DURATION", default_value = "")]
    pub sync_period: String,
    /// How long the first list of a kind may take before the process gives up
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    pub controller_cache_sync_timeout: Duration,
    /// Writes per second of one controller; 0 or less means 20. Without this flag and the next there is no fixed limit: writes follow what the API server can take
    #[arg(long, value_name = "NUMBER")]
    pub rest_config_qps: Option<i64>,
    /// Writes of one controller that may come at once; 0 or less means 30
    #[arg(long, value_name = "NUMBER")]
    pub rest_config_burst: Option<i64>,
    /// First pause after a failed reconcile of an object; it doubles each time
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = parse_duration)]
    pub rate_limiter_base_delay: Duration,
    /// Longest pause after failed reconciles of an object
    #[arg(long, value_name = "DURATION", default_value = "1000s", value_parser = parse_duration)]
    pub rate_limiter_max_delay: Duration,
    /// Repeated reconciles per second of one controller
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub rate_limiter_qps: i64,
    /// Repeated reconciles of one controller that may come at once
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub rate_limiter_bucket_size: i64,
    /// Accepted and ignored: lists are never copied
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub disable_no_deepcopy: bool,
    /// Age at which a write that was not seen in the cache is reported
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub expectation_timeout: Duration,
}

/// Rules of single kinds.
// Each flag is its own yes or no; there is no state behind them together.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Kinds")]
pub struct RuleFlags {
    /// Accept securityContext.privileged=true in Pod templates
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub allow_privileged: bool,
    /// Life in seconds of image pull tasks with pull policy Always, from 0 to 2678400
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub default_ttlseconds_for_always_nodeimage: i64,
    /// Workload kinds for which WorkloadSpread counts each revision by itself
    #[arg(long, value_name = "KINDS", default_value = "deployment,replicaset")]
    pub ws_enabled_versioned_status: String,
    /// Treat every CloneSet as if it carried the label that excludes preparing-delete Pods from scaling
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub cloneset_scaling_exclude_preparing_delete: bool,
    /// Let the scheduler place the Pods of DaemonSets; false writes the node name
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub assign_pods_by_scheduler: bool,
    /// Let the scheduler place the Pods of BroadcastJobs; false writes the node name
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub assign_bcj_pods_by_scheduler: bool,
    /// Wait between a node getting ready and the creation of its NodeImage
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub nodeimage_creation_delay: Duration,
}

/// How log entries are written.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogFlags {
    /// text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: String,
    /// Accepted and ignored: entries are written at once
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub log_flush_frequency: Duration,
    /// Accepted and ignored
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub log_text_split_stream: bool,
    /// Accepted and ignored
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub log_text_info_buffer_size: String,
    /// Accepted and ignored
    #[arg(long, action = clap::ArgAction::Set, default_value_t = false)]
    pub log_json_split_stream: bool,
    /// Accepted and ignored
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub log_json_info_buffer_size: String,
}

#[cfg(test)]
mod tests;
