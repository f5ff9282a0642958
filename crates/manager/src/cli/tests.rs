//! Every flag of the contract with its default, and the values that are refused.

use super::Flags;
use kruise_runtime::flags::{command, parse};
use std::collections::BTreeMap;

/// Name and default of every flag that installed manifests may use.
const CONTRACT: [(&str, &str); 69] = [
    ("metrics-addr", ":8080"),
    ("health-probe-addr", ":8000"),
    ("enable-pprof", "true"),
    ("pprof-addr", ":8090"),
    ("allow-privileged", "true"),
    ("enable-leader-election", "true"),
    ("leader-election-namespace", "kruise-system"),
    ("leader-election-id", "kruise-manager"),
    ("leader-election-resource-lock", "leases"),
    ("leader-election-lease-duration", "15s"),
    ("leader-election-renew-deadline", "10s"),
    ("leader-election-retry-period", "2s"),
    ("namespace", ""),
    ("sync-period", ""),
    ("controller-cache-sync-timeout", "2m"),
    ("webhook-initialize-timeout", "60s"),
    ("rest-config-qps", "30"),
    ("rest-config-burst", "50"),
    ("feature-gates", ""),
    ("expectation-timeout", "5m"),
    ("rate-limiter-base-delay", "5ms"),
    ("rate-limiter-max-delay", "1000s"),
    ("rate-limiter-qps", "10"),
    ("rate-limiter-bucket-size", "100"),
    ("disable-no-deepcopy", "false"),
    ("protection-log-path", "/log"),
    ("default-ttlseconds-for-always-nodeimage", "300"),
    ("ws-enabled-versioned-status", "deployment,replicaset"),
    ("cloneset-scaling-exclude-preparing-delete", "false"),
    ("assign-pods-by-scheduler", "true"),
    ("assign-bcj-pods-by-scheduler", "true"),
    ("nodeimage-creation-delay", "30s"),
    ("kubeconfig", ""),
    ("advancedcronjob-workers", "3"),
    ("broadcastjob-workers", "3"),
    ("cloneset-workers", "3"),
    ("crr-workers", "3"),
    ("daemonset-workers", "3"),
    ("nodeimage-workers", "3"),
    ("imagepulljob-workers", "3"),
    ("sidecarset-workers", "3"),
    ("statefulset-workers", "3"),
    ("uniteddeployment-workers", "3"),
    ("podunavailablebudget-workers", "3"),
    ("workloadspread-workers", "3"),
    ("resourcedistribution-workers", "3"),
    ("persistentpodstate-workers", "3"),
    ("sidecarterminator-workers", "3"),
    ("podprobemarker-workers", "3"),
    ("nodepodprobe-workers", "3"),
    ("v", "0"),
    ("logtostderr", "true"),
    ("alsologtostderr", "false"),
    ("vmodule", ""),
    ("log_dir", ""),
    ("log_file", ""),
    ("log_file_max_size", "1800"),
    ("stderrthreshold", "2"),
    ("skip_headers", "false"),
    ("skip_log_headers", "false"),
    ("add_dir_header", "false"),
    ("one_output", "false"),
    ("log_backtrace_at", ":0"),
    ("logging-format", "text"),
    ("log-flush-frequency", "5s"),
    ("log-text-split-stream", "false"),
    ("log-text-info-buffer-size", "0"),
    ("log-json-split-stream", "false"),
    ("log-json-info-buffer-size", "0"),
];

/// Name and default of the flags that only we have.
const OURS: [(&str, &str); 7] = [
    ("state-metrics-addr", "0"),
    ("ui-addr", "0"),
    ("resources", ""),
    ("metric-allowlist", ""),
    ("metric-denylist", ""),
    ("metric-labels-allowlist", ""),
    ("metric-annotations-allowlist", ""),
];

fn read(args: &[&str]) -> Result<Flags, clap::Error> {
    parse(["manager"].iter().chain(args))
}

#[test]
fn given_the_definitions_then_they_are_exactly_the_contract_and_ours() {
    let command = command::<Flags>();
    let defined: BTreeMap<_, _> = command
        .get_arguments()
        .filter_map(|arg| {
            let default: Vec<_> = arg
                .get_default_values()
                .iter()
                .map(|value| value.to_string_lossy())
                .collect();
            Some((arg.get_long()?.to_owned(), default.join(",")))
        })
        .collect();
    let expected: BTreeMap<_, _> = CONTRACT
        .iter()
        .chain(&OURS)
        .map(|(name, default)| {
            // A difference on purpose: without these flags the pace of writes is found, not fixed.
            let ours = if name.starts_with("rest-config-") { "" } else { default };
            ((*name).to_owned(), ours.to_owned())
        })
        .collect();
    assert_eq!(defined, expected);
    command.debug_assert();
}

#[test]
fn given_every_flag_with_its_own_default_then_it_is_accepted() {
    for (name, default) in CONTRACT {
        read(&[&format!("--{name}={default}")]).expect(name);
    }
}

#[test]
fn given_the_arguments_of_the_chart_then_they_are_understood() {
    let flags = read(&[
        "--enable-leader-election",
        "--metrics-addr=:8080",
        "--health-probe-addr=:8000",
        "--logtostderr=true",
        "--leader-election-namespace=kruise-system",
        "--v=4",
        "--feature-gates=ImagePullJobGate=true",
        "--sync-period=0",
    ])
    .expect("valid");
    assert_eq!(flags.klog.verbosity, 4);
    assert_eq!(flags.process.feature_gates, ["ImagePullJobGate=true"]);
    assert_eq!(flags.api.sync_period, "0");
}

#[test]
fn given_a_bad_value_then_the_message_names_flag_and_value_and_the_exit_code_is_not_zero() {
    let table = [
        ("--metrics-addr", "8080"),
        ("--health-probe-addr", ":99999"),
        ("--enable-pprof", "perhaps"),
        ("--leader-election-lease-duration", "15"),
        ("--leader-election-renew-deadline", "-1s"),
        ("--controller-cache-sync-timeout", "soon"),
        ("--rest-config-qps", "many"),
        ("--rate-limiter-base-delay", "5 ms"),
        ("--rate-limiter-bucket-size", "1.5"),
        ("--cloneset-workers", "three"),
        ("--default-ttlseconds-for-always-nodeimage", "1d"),
        ("--v", "high"),
    ];
    for (flag, value) in table {
        let error = read(&[&format!("{flag}={value}")]).expect_err(flag);
        let text = error.to_string();
        assert!(text.contains(flag) && text.contains(value), "{text}");
        assert_ne!(error.exit_code(), 0, "{flag}");
    }
}

#[test]
fn given_an_unknown_flag_then_it_is_named() {
    for flag in ["--no-such-flag=1", "--metrics_addr=:1", "-metrics-addr=:1", "stray"] {
        let error = read(&[flag]).expect_err(flag);
        assert_ne!(error.exit_code(), 0, "{flag}");
    }
    let text = read(&["--no-such-flag=1"]).expect_err("unknown").to_string();
    assert!(text.contains("--no-such-flag"), "{text}");
}
