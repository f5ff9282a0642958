//! `kubectl kruise exec`: a command in a container of a Pod, or of the most active Pod of a workload.
//!
//! - `-S NAME` means the container that a SidecarSet has at work: the one of two that an upgrade without interruption has chosen, or else the one of that name.
//! - The exit code is that of the command.

mod choose;
mod terminal;

use crate::{
    args::Connection,
    connect::{connect, describe_error},
    explain::Completeness,
    text::visible,
};
use anyhow::{Context as _, Result, anyhow, bail};
use choose::{Found, Kind, container, most_active};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{AttachParams, DynamicObject, ListParams},
};
use serde_json::Value;
use std::{path::PathBuf, time::Duration};
use terminal::Raw;
use tokio::time::{Instant, sleep, timeout};

/// How often it is looked whether a Pod runs.
const EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise exec web-0 -- date\n  kubectl kruise exec -it cloneset/web -c main -- sh\n  kubectl kruise exec cloneset/web -S log-agent -- cat /etc/agent.conf"
)]
pub(crate) struct Exec {
    /// A Pod: `web-0`; or what has Pods: `cloneset/web`
    #[arg(value_name = "POD | KIND/NAME", required_unless_present = "filename")]
    object: Option<String>,
    /// A file with the Pod, or with what has Pods
    #[arg(short, long, value_name = "FILE", conflicts_with = "object")]
    filename: Option<PathBuf>,
    /// The container
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// A sidecar of a SidecarSet, by its name there
    #[arg(short = 'S', long, value_name = "NAME", conflicts_with = "container")]
    sidecar: Option<String>,
    /// Pass the standard input on
    #[arg(short = 'i', long)]
    stdin: bool,
    /// The standard input is a terminal
    #[arg(short, long)]
    tty: bool,
    /// Tell nothing but what the command tells
    #[arg(short, long)]
    quiet: bool,
    /// How long a Pod may take to run
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::args::parse_time)]
    pod_running_timeout: Duration,
    /// The command and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn run(connection: &Connection, args: &Exec) -> Result<Completeness> {
    let (object, namespace) = match (&args.object, &args.filename) {
        (Some(object), _) => (choose::read(object)?, None),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            choose::of_file(&text)?
        }
        (None, None) => bail!("pod, type/name or --filename must be specified"),
    };
    let (client, default) = connect(connection).await?;
    let namespace = namespace.unwrap_or(default);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let deadline = Instant::now() + args.pod_running_timeout;
    let pod = loop {
        let found = timeout(connection.request_timeout, find(&client, &pods, &namespace, &object)).await;
        let found =
            found.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??;
        match choose::state(found)? {
            Found::Running(pod) => break pod,
            Found::Waiting(why) if Instant::now() >= deadline => bail!("{why}, and was waited for as long as allowed"),
            Found::Waiting(_) => sleep(EVERY).await,
        }
    };
    let chosen = container(&pod, args.container.as_deref(), args.sidecar.as_deref())?;
    if !args.quiet {
        for line in &chosen.notes {
            eprintln!("{}", visible(line));
        }
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    attach(&pods, name, &chosen.container, args).await
}

/// The Pod that is meant; nothing when there is none.
async fn find(client: &Client, pods: &Api<Pod>, namespace: &str, (kind, name): &(Kind, String)) -> Result<Option<Pod>> {
    let Some(resource) = kind.resource() else {
        return pods.get(name).await.map(Some).map_err(describe_error);
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let owner = serde_json::to_value(api.get(name).await.map_err(describe_error)?)?;
    let selector = choose::selector(&owner).with_context(|| format!("{} {name} selects no Pods", resource.kind))?;
    let listed = pods
        .list(&ListParams::default().labels(&selector))
        .await
        .map_err(describe_error)?;
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    let owned = listed.items.into_iter().filter(|pod| kind.has(pod, uid));
    Ok(most_active(owned.collect()))
}

async fn attach(pods: &Api<Pod>, pod: &str, container: &str, args: &Exec) -> Result<Completeness> {
    let raw = if args.tty && args.stdin { Raw::begin() } else { None };
    if args.tty && raw.is_none() && args.stdin {
        eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let tty = args.tty && (raw.is_some() || !args.stdin);
    let params = AttachParams {
        container: Some(container.to_owned()),
        stdin: args.stdin,
        stdout: true,
        stderr: !tty,
        tty,
        ..AttachParams::default()
    };
    let mut process = pods.exec(pod, &args.command, &params).await.map_err(describe_error)?;
    let status = process.take_status();
    let mut sizes = process.terminal_size().filter(|_| raw.is_some());
    let (input, output, errors) = (process.stdin(), process.stdout(), process.stderr());
    let read = tokio::spawn(terminal::read_into(input));
    let sizes = tokio::spawn(terminal::send_sizes(raw.is_some(), move |size| {
        if let Some(sizes) = &mut sizes {
            // One that is not taken is followed by the next.
            drop(sizes.try_send(size));
        }
    }));
    tokio::join!(
        terminal::write(output, || Box::new(std::io::stdout())),
        terminal::write(errors, || Box::new(std::io::stderr()))
    );
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    read.abort();
    sizes.abort();
    drop(raw);
    let status = serde_json::to_value(status.context("the connection ended before the command did")?)?;
    match exit_code(&status) {
        Some(code) => Ok(Completeness::Exit(code)),
        None => bail!(
            "{}",
            status["message"].as_str().unwrap_or("the command could not be run")
        ),
    }
}

/// The exit code of a command; nothing when it was not run.
fn exit_code(status: &Value) -> Option<u8> {
    if status["status"] == "Success" {
        return Some(0);
    }
    let mut causes = status.pointer("/details/causes")?.as_array()?.iter();
    let code = causes.find(|cause| cause["reason"] == "ExitCode")?["message"].as_str()?;
    code.parse().ok().filter(|_| status["reason"] == "NonZeroExitCode")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        exec: Exec,
    }

    #[test]
    fn given_words_then_the_command_is_behind_two_dashes() {
        let read =
            |words: &str| Words::try_parse_from(["exec"].into_iter().chain(words.split(' '))).map(|words| words.exec);
        let exec = read("-it clone/web -S log -- sh -c x").unwrap();
        assert_eq!(
            (exec.command.join(" "), exec.stdin, exec.tty),
            ("sh -c x".to_owned(), true, true)
        );
        assert_eq!(exec.sidecar.as_deref(), Some("log"));
        assert!(read("web").is_err() && read("-- date").is_err() && read("web -c a -S b -- date").is_err());
    }

    #[test]
    fn given_a_status_then_the_exit_code_is_that_of_the_command() {
        let failed = |code: &str| json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": code}]}});
        assert_eq!(exit_code(&json!({"status": "Success"})), Some(0));
        assert_eq!(exit_code(&failed("137")), Some(137));
        assert_eq!(exit_code(&failed("x")), None);
        assert_eq!(
            exit_code(&json!({"status": "Failure", "message": "no such file"})),
            None
        );
    }
}
