//! The command line.

use crate::{
    completion::Completion,
    create::Create,
    describe::Describe,
    exec::Exec,
    expose::Expose,
    get::Get,
    migrate::Migrate,
    plan::Plan,
    rollout::{Promote, Rollout},
    scale::{Scale, ScaleDown},
    set::Set,
};
use clap::{Parser, Subcommand, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Look at what OpenKruise's controllers do, restart containers and pull images
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-kruise",
    bin_name = "kubectl kruise",
    version,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The same flags as kubectl has.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true)]
    pub(crate) cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true)]
    pub(crate) user: Option<String>,
    /// Namespace of the object; that of the context when not given
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,
    /// How long one answer may take
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) request_timeout: Duration,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
}

/// What goes before the kubeconfig.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Overrides {
    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token to log in with
    #[arg(long, global = true)]
    pub(crate) token: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to act as; may be given several times
    #[arg(long, global = true, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,
    /// UID to act as
    #[arg(long, global = true, value_name = "UID")]
    pub(crate) as_uid: Option<String>,
    /// File with the certificate of the authority that the API server is trusted by
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// File with the certificate to log in with
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_certificate: Option<String>,
    /// File with the key of that certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) client_key: Option<String>,
    /// Do not check the certificate of the API server
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Name that the certificate of the API server has to have
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a controller does with an object now, and what holds it back
    Explain(Explain),
    /// Show how far objects are and what they wait for; of one BroadcastJob, its nodes and why Pods failed
    Get(Get),
    /// See how a rollout goes, go back, pause it, start all Pods anew
    #[command(subcommand)]
    Rollout(Rollout),
    /// Let more Pods of a partitioned rollout be updated
    Promote(Promote),
    /// Set images, variables, resources or the account of a workload's Pods
    #[command(subcommand)]
    Set(Set),
    /// Set how many Pods a workload has
    Scale(Scale),
    /// Delete Pods of a CloneSet by name, and want as many fewer
    Scaledown(ScaleDown),
    /// Make a Job, a BroadcastJob or a ContainerRecreateRequest
    #[command(subcommand)]
    Create(Create),
    /// Tell all that is known of an object
    Describe(Describe),
    /// Restart containers of a running Pod in place, and follow how it goes
    Restart(Restart),
    /// Pull an image onto nodes ahead of time, and follow how it goes
    Pull(Pull),
    /// Run a command in a container of a Pod, or of the most active Pod of a workload
    Exec(Exec),
    /// Make a Service for a workload, a Pod or another Service
    Expose(Box<Expose>),
    /// Move the Pods of a Deployment to a CloneSet or back, without a moment below the wanted replicas
    Migrate(Migrate),
    /// Say what a change would do: which Pods in place and which anew, in which order, within which budget
    Plan(Plan),
    /// Look at what SidecarSets do to Pods
    #[command(subcommand)]
    Sidecar(SidecarCommand),
    /// Open the manager's live page
    Ui(Ui),
    /// Print what makes a shell complete commands, kinds and names
    Completion(Completion),
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  kubectl kruise ui\n  kubectl kruise ui --port 8088 --no-open")]
pub(crate) struct Ui {
    /// Port of this machine; any that is free when not given
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Only tell the address, and do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Namespace in which the manager runs
    #[arg(long, value_name = "NAMESPACE", default_value = kruise_api::names::object::SYSTEM_NAMESPACE)]
    pub(crate) manager_namespace: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SidecarCommand {
    /// Say what would be injected into a Pod and by which SidecarSet, and why others would not
    Plan(SidecarPlan),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise sidecar plan -f pod.yaml\n  kubectl kruise sidecar plan -f deployment.yaml -n shop -o json\n  kubectl kruise sidecar plan pod/web-0"
)]
pub(crate) struct SidecarPlan {
    /// A Pod that is there: `pod/web-0`, or `web-0`
    #[arg(
        value_name = "POD",
        required_unless_present = "filename",
        conflicts_with = "filename"
    )]
    pub(crate) pod: Option<String>,
    /// A file with a Pod, or with anything that has a Pod template; `-` is the standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Namespace in which the manager runs, where revisions of SidecarSets are kept
    #[arg(long, value_name = "NAMESPACE", default_value = kruise_api::names::object::SYSTEM_NAMESPACE)]
    pub(crate) manager_namespace: String,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise restart pod/web-0\n  kubectl kruise restart pod/web-0 -c main -c sidecar --ordered --unready 10s"
)]
pub(crate) struct Restart {
    /// The Pod: `pod/web-0`, or `web-0`
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
    /// A container to restart; all when none is named
    #[arg(short, long = "container", value_name = "NAME")]
    pub(crate) containers: Vec<String>,
    /// Restart one after the other, each when the one before is ready again
    #[arg(long)]
    pub(crate) ordered: bool,
    /// Go on with the other containers when one cannot be stopped
    #[arg(long)]
    pub(crate) ignore_failures: bool,
    /// Hold the Pod not ready for so long before its containers are stopped
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) unready: Option<Duration>,
    /// How long a container may take to stop; as its Pod says when not given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) grace_period: Option<Duration>,
    /// Give up after so long; at least 3s
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// Do not follow how it goes
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise pull nginx:1.27 --nodes node-1,node-2\n  kubectl kruise pull nginx:1.27 --selector zone=a --parallelism 5 --secret registry"
)]
pub(crate) struct Pull {
    /// The image, with tag or digest
    pub(crate) image: String,
    /// Nodes by name; all when neither these nor labels are given
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "selector")]
    pub(crate) nodes: Vec<String>,
    /// Labels that the nodes have, as `key=value,…`
    #[arg(short = 'l', long, value_name = "LABELS", value_delimiter = ',', value_parser = parse_pair)]
    pub(crate) selector: Vec<(String, String)>,
    /// A Secret of the namespace with which to log in to the registry
    #[arg(long = "secret", value_name = "NAME")]
    pub(crate) secrets: Vec<String>,
    /// Nodes that pull at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    pub(crate) parallelism: u16,
    /// Ask the registry also where the node has the image already
    #[arg(long)]
    pub(crate) always: bool,
    /// How long one attempt may take
    #[arg(long = "pull-timeout", value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub(crate) attempt: Duration,
    /// Do not follow how it goes
    #[arg(long)]
    pub(crate) no_wait: bool,
}

pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not of the form key=value")),
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise explain cloneset web\n  kubectl kruise explain clone/web -n shop -o json"
)]
pub(crate) struct Explain {
    /// Kind and name: `cloneset web`, or `cloneset/web`
    #[arg(required = true, num_args = 1..=2, value_name = "KIND NAME")]
    pub(crate) object: Vec<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Show also what would be written; forwards a port of the manager, which takes more rights than reading the object
    #[arg(long)]
    pub(crate) whole: bool,
    /// Ask the manager at this address instead of looking for it in the cluster, for example `http://localhost:8090`
    #[arg(long, value_name = "URL")]
    pub(crate) manager: Option<String>,
    /// Namespace in which the manager runs
    #[arg(long, value_name = "NAMESPACE", default_value = kruise_api::names::object::SYSTEM_NAMESPACE)]
    pub(crate) manager_namespace: String,
    /// Port of the manager's debug endpoint (its flag --pprof-addr)
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    pub(crate) manager_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// As kubectl: a number of seconds, or a number with a unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|sign: char| !sign.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} does not begin with a number"))?;
    let (factor, most) = match unit {
        "ms" => (1, u64::MAX),
        "s" => (1_000, u64::MAX / 1_000),
        "m" => (60_000, u64::MAX / 60_000),
        _ => return Err(format!("{unit:?} is none of ms, s and m")),
    };
    match number {
        0 => Err("it has to be more than nothing".to_owned()),
        number if number > most => Err("it is too long".to_owned()),
        number => Ok(Duration::from_millis(number * factor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_may_stand_anywhere_as_with_kubectl() {
        let args = Args::try_parse_from([
            "kubectl-kruise",
            "explain",
            "cloneset",
            "web",
            "-n",
            "shop",
            "-o",
            "json",
            "--context=c",
        ]);
        let args = args.unwrap();
        assert_eq!(args.connection.namespace.as_deref(), Some("shop"));
        assert_eq!(args.connection.context.as_deref(), Some("c"));
        let Command::Explain(explain) = args.command else {
            panic!("another command");
        };
        assert_eq!((explain.object.len(), explain.output), (2, Output::Json));
        let args = Args::try_parse_from(["kubectl-kruise", "-n", "shop", "explain", "cloneset/web"]).unwrap();
        assert_eq!(args.connection.namespace.as_deref(), Some("shop"));
        assert!(Args::try_parse_from(["kubectl-kruise", "explain"]).is_err());
        assert!(Args::try_parse_from(["kubectl-kruise", "explain", "a", "b", "c"]).is_err());
    }

    #[test]
    fn nodes_and_labels_are_read_as_kubectl_reads_them() {
        let read = |args: &[&str]| {
            Args::try_parse_from(["kubectl-kruise", "pull"].iter().chain(args)).map(|args| args.command)
        };
        let Ok(Command::Pull(pull)) = read(&["nginx:1", "--nodes", "a,b", "--nodes=c"]) else {
            panic!("not read");
        };
        assert_eq!(pull.nodes, ["a", "b", "c"]);
        let Ok(Command::Pull(pull)) = read(&["nginx:1", "-l", "zone=a,disk="]) else {
            panic!("not read");
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pull.selector, [pair("zone", "a"), pair("disk", "")]);
        assert!(read(&["nginx:1", "-l", "zone"]).is_err());
        assert!(read(&["nginx:1", "-l", "zone=a", "--nodes=b"]).is_err());
        assert!(read(&[]).is_err());
    }

    #[test]
    fn times_are_read_as_kubectl_reads_them() {
        for (text, time) in [
            ("5", Some(5_000)),
            ("250ms", Some(250)),
            ("2s", Some(2_000)),
            ("3m", Some(180_000)),
            ("0", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("5h", None),
            ("99999999999999999999", None),
            ("18446744073709551615s", None),
        ] {
            assert_eq!(parse_time(text).ok(), time.map(Duration::from_millis), "{text}");
        }
    }
}
