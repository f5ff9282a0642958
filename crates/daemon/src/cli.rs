//! The command line of the daemon: the flags of the original, under the same names and with the same defaults.

use kruise_runtime::{
    flags::{Bind, parse_bind},
    logging::KlogFlags,
};

/// What the command line says.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    name = "kruise-daemon",
    version,
    about = "Pulls images, recreates containers and runs probes on one node"
)]
#[command(next_help_heading = "Process")]
pub struct Flags {
    /// Where /healthz and /metrics are served over plain HTTP; 0 turns them off
    #[arg(long, value_name = "ADDRESS", default_value = ":10221", value_parser = parse_bind)]
    pub addr: Bind,
    /// Serve /debug/pprof/ (an index only: there is no Go profiler in this process)
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub enable_pprof: bool,
    /// Where /debug/pprof/ is served; an address that is taken is fatal
    #[arg(long, value_name = "ADDRESS", default_value = ":10222", value_parser = parse_bind)]
    pub pprof_addr: Bind,
    /// Socket of the container runtime below /hostvarrun; empty means to look for the known ones
    #[arg(long, value_name = "FILE", default_value = "")]
    pub socket_file: String,
    /// Images pulled at once; 0 or less means no limit
    #[arg(long, value_name = "NUMBER", default_value_t = -1)]
    pub max_workers_for_pull_image: i64,
    /// Configuration of credential provider plugins; a missing file is fine
    #[arg(long, value_name = "FILE", default_value = "/kruise/CredentialProviderPlugin.yaml")]
    pub plugin_config_file: String,
    /// Directory of credential provider plugins
    #[arg(long, value_name = "DIR", default_value = "/kruise/plugins")]
    pub plugin_bin_dir: String,
    /// Features to switch on or off, the same text as for the manager
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,
    /// Kubeconfig file; otherwise KUBECONFIG, the Pod's service account or the home directory is used
    #[arg(long, value_name = "FILE", default_value = "")]
    pub kubeconfig: String,
    /// Requests per second to the API server; 0 or less means 20
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub rest_config_qps: i64,
    /// Requests that may come at once; 0 or less means 30
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub rest_config_burst: i64,
    #[command(flatten)]
    pub klog: KlogFlags,
}

#[cfg(test)]
mod tests {
    use super::Flags;
    use kruise_runtime::flags::{command, parse};
    use std::collections::BTreeMap;

    /// Name and default of every flag that installed manifests may use.
    const CONTRACT: [(&str, &str); 24] = [
        ("addr", ":10221"),
        ("enable-pprof", "true"),
        ("pprof-addr", ":10222"),
        ("socket-file", ""),
        ("max-workers-for-pull-image", "-1"),
        ("plugin-config-file", "/kruise/CredentialProviderPlugin.yaml"),
        ("plugin-bin-dir", "/kruise/plugins"),
        ("rest-config-qps", "0"),
        ("rest-config-burst", "0"),
        ("feature-gates", ""),
        ("kubeconfig", ""),
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
    ];

    fn read(args: &[&str]) -> Result<Flags, clap::Error> {
        parse(["kruise-daemon"].iter().chain(args))
    }

    #[test]
    fn given_the_definitions_then_they_are_exactly_the_contract() {
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
        let contract: BTreeMap<_, _> = CONTRACT
            .iter()
            .map(|(name, default)| ((*name).to_owned(), (*default).to_owned()))
            .collect();
        assert_eq!(defined, contract);
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
            "--logtostderr=true",
            "--v=4",
            "--addr=:10221",
            "--feature-gates=ImagePullJobGate=true",
            "--socket-file=",
            "--enable-pprof=true",
            "--pprof-addr=localhost:10222",
        ])
        .expect("valid");
        assert_eq!(flags.pprof_addr.to_string(), "localhost:10222");
        assert_eq!(flags.socket_file, "");
    }

    #[test]
    fn given_a_bad_value_or_an_unknown_flag_then_it_is_named() {
        for (flag, value) in [
            ("--addr", "10221"),
            ("--enable-pprof", "perhaps"),
            ("--max-workers-for-pull-image", "all"),
            ("--rest-config-qps", "1.5"),
            ("--logging-format", "json"),
            ("--no-such-flag", "1"),
        ] {
            let error = read(&[&format!("{flag}={value}")]).expect_err(flag);
            assert!(error.to_string().contains(flag), "{error}");
            assert_ne!(error.exit_code(), 0);
        }
    }
}
