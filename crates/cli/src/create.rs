//! `kubectl kruise create`: Jobs, BroadcastJobs and ContainerRecreateRequests without a file.
//!
//! - A job has one container of its own name, or is made from the template of a `CronJob` or an AdvancedCronJob. What it is made from owns it, but does not control it, so that it
//!   does not count as one of its runs.
//! - A ContainerRecreateRequest names the containers that are given, or all of the Pod, with their ports and preStop hooks. To follow it as well: `kubectl kruise restart`.

use crate::{
    args::Connection,
    change::{DryRun, Writing},
    explain::{Completeness, print},
    follow::say,
    kinds::{CRON_JOB, JOB, Kind, POD},
    print::{Format, items},
    select::checked,
    server::{Object, Refusal, Server},
};
use anyhow::{Context as _, Error, Result, bail};
use clap::Subcommand;
use kruise_api::{advancedcronjob, broadcastjob, containerrecreaterequest};
use serde_json::{Value, json};

/// On jobs that somebody made from a schedule by hand.
const INSTANTIATED: &str = "cronjob.kubernetes.io/instantiate";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Create {
    /// Make a Job
    Job(Run),
    /// Make a BroadcastJob: the same on every node
    #[command(name = "broadcastJob", alias = "broadcastjob", alias = "bcj")]
    BroadcastJob(Run),
    /// Ask for containers of a Pod to be restarted in place
    #[command(name = "ContainerRecreateRequest", alias = "containerrecreaterequest", alias = "crr")]
    ContainerRecreateRequest(Recreate),
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise create job hello --image busybox -- echo hello\n  kubectl kruise create job now --from cronjob/nightly\n  \
                  kubectl kruise create broadcastJob clean --image busybox -- rm -rf /tmp/cache\n  kubectl kruise create broadcastJob now --from acj/nightly"
)]
pub(crate) struct Run {
    /// Name of the job
    #[arg(value_name = "NAME")]
    name: Vec<String>,
    /// Image of its container
    #[arg(long)]
    image: Option<String>,
    /// Make it from the template of this: `cronjob/NAME` or `acj/NAME`
    #[arg(long, value_name = "TYPE/NAME")]
    from: Option<String>,
    /// What the container runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise create ContainerRecreateRequest again --pod web-0\n  \
                  kubectl kruise create crr again --pod web-0 --containers main,side -u 10 -m 5"
)]
pub(crate) struct Recreate {
    /// Name of the request
    #[arg(value_name = "NAME")]
    name: Vec<String>,
    /// The Pod
    #[arg(short, long, value_name = "NAME", required = true)]
    pod: String,
    /// Containers of it; all when none is named
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    containers: Vec<String>,
    /// Seconds for which the Pod is not ready before
    #[arg(
        short,
        long = "unreadyGracePeriodSeconds",
        value_name = "SECONDS",
        default_value_t = 3
    )]
    unready: u32,
    /// Seconds that a container has to run before it counts as restarted
    #[arg(short, long = "minStartedSeconds", value_name = "SECONDS", default_value_t = 3)]
    min_started: u32,
    #[command(flatten)]
    writing: Writing,
}

pub(crate) async fn run(connection: &Connection, create: &Create) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    match create {
        Create::Job(args) => job(&server, JOB, args).await.context("failed to create job")?,
        Create::BroadcastJob(args) => {
            let kind = Kind::of(&broadcastjob::KIND);
            job(&server, kind, args).await.context("failed to create job")?;
        }
        Create::ContainerRecreateRequest(args) => request(&server, args).await.context("failed to create crr")?,
    }
    Ok(Completeness::All)
}

/// The only name.
fn only(names: &[String]) -> Result<&str> {
    match names {
        [name] => checked(name),
        names => bail!("exactly one NAME is required, got {}", names.len()),
    }
}

async fn job(server: &Server, kind: Kind, args: &Run) -> Result<()> {
    let name = only(&args.name)?;
    let value = match (&args.image, &args.from) {
        (None, None) | (Some(_), Some(_)) => bail!("either --image or --from must be specified"),
        (None, Some(_)) if !args.command.is_empty() => bail!("cannot specify --from and command"),
        (Some(image), None) => of_image(kind, name, image, &args.command),
        (None, Some(from)) => {
            let (source_kind, source) = source(kind, from)?;
            let source = server
                .get(source_kind, None, &server.namespace, source)
                .await
                .map_err(plain)?;
            of_source(kind, name, &source)?
        }
    };
    made(server, kind, &value, &args.writing).await
}

fn of_image(kind: Kind, name: &str, image: &str, command: &[String]) -> Value {
    let mut container = json!({"name": name, "image": image});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    let pod = json!({"containers": [container], "restartPolicy": "Never"});
    json!({"kind": kind.kind, "metadata": {"name": name}, "spec": {"template": {"spec": pod}}})
}

/// What a job is made from.
fn source(kind: Kind, from: &str) -> Result<(Kind, &str)> {
    let (word, name) = from.split_once('/').unwrap_or((from, ""));
    let word = word.to_lowercase();
    let found = match word.split('.').next().unwrap_or_default() {
        "cronjob" | "cronjobs" | "cj" if kind == JOB => CRON_JOB,
        "advancedcronjob" | "advancedcronjobs" | "acj" => Kind::of(&advancedcronjob::KIND),
        _ if kind == JOB => bail!("from must be an existing cronjob or advancedcronjob, but got {from:?}"),
        _ => bail!("from must be an existing advancedcronjob, but got {from:?}"),
    };
    Ok((found, checked(name)?))
}

fn of_source(kind: Kind, name: &str, source: &Object) -> Result<Value> {
    let (wanted, path) = match (source.kind == CRON_JOB, kind == JOB) {
        (true, _) => ("job", "/spec/jobTemplate"),
        (false, true) => ("job", "/spec/template/jobTemplate"),
        (false, false) => ("broadcastJob", "/spec/template/broadcastJobTemplate"),
    };
    let Some(template) = source.value.pointer(path) else {
        let type_ = source.value.pointer("/status/type").and_then(Value::as_str);
        bail!(
            "from must be a {wanted} template, but got {}",
            type_.unwrap_or("another")
        );
    };
    let mut metadata = json!({"name": name, "annotations": {}});
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    metadata["annotations"][INSTANTIATED] = json!("manual");
    metadata["ownerReferences"] = json!([{
        "apiVersion": source.value["apiVersion"], "kind": source.kind.kind, "name": source.name(), "uid": source.uid(),
    }]);
    Ok(json!({"kind": kind.kind, "metadata": metadata, "spec": template["spec"]}))
}

async fn request(server: &Server, args: &Recreate) -> Result<()> {
    let name = only(&args.name)?;
    let pod = server
        .get(POD, None, &server.namespace, checked(&args.pod)?)
        .await
        .map_err(plain)?;
    let value = of_pod(name, &pod, args)?;
    made(server, Kind::of(&containerrecreaterequest::KIND), &value, &args.writing).await
}

fn of_pod(name: &str, pod: &Object, args: &Recreate) -> Result<Value> {
    let all = pod.value.pointer("/spec/containers").and_then(Value::as_array);
    let all: Vec<&Value> = all.into_iter().flatten().collect();
    for wanted in &args.containers {
        if !all.iter().any(|container| container["name"] == **wanted) {
            bail!("container {wanted} not found in Pod");
        }
    }
    let is_meant = |container: &&&Value| {
        args.containers.is_empty() || args.containers.iter().any(|wanted| container["name"] == **wanted)
    };
    let containers: Vec<Value> = all
        .iter()
        .filter(is_meant)
        .map(|container| of_container(container))
        .collect();
    Ok(json!({
        "kind": containerrecreaterequest::KIND.kind, "metadata": {"name": name},
        "spec": {
            "podName": pod.name(), "containers": containers, "activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 1800,
            "strategy": {"failurePolicy": "Fail", "orderedRecreate": false, "unreadyGracePeriodSeconds": args.unready, "minStartedSeconds": args.min_started},
        },
    }))
}

fn of_container(container: &Value) -> Value {
    let mut request = json!({"name": container["name"]});
    if let Some(hook) = container.pointer("/lifecycle/preStop") {
        request["preStop"] = hook.clone();
    }
    if container["ports"].is_array() {
        request["ports"] = container["ports"].clone();
    }
    request
}

async fn made(server: &Server, kind: Kind, value: &Value, writing: &Writing) -> Result<()> {
    let (object, suffix) = if writing.dry_run == DryRun::Client {
        let version = kind.versions().first().copied().unwrap_or_default();
        let mut value = value.clone();
        value["apiVersion"] = json!(format!("{}/{version}", kind.group));
        value["metadata"]["namespace"] = json!(server.namespace);
        (Object { kind, version, value }, " (dry run)")
    } else {
        let is_dry = writing.dry_run == DryRun::Server;
        let made = server
            .create(kind, &server.namespace, value, is_dry)
            .await
            .map_err(plain)?;
        (made, if is_dry { " (server dry run)" } else { "" })
    };
    match writing.output {
        Some(format) => print(&items(&[object], Format::from(format))?),
        None => say(&format!("{} created{suffix}", object.printed())),
    }
}

fn plain(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Other(error) => error,
        refusal => refusal.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: Kind, value: Value) -> Object {
        Object {
            kind,
            version: kind.versions()[0],
            value,
        }
    }

    #[test]
    fn given_an_image_then_the_job_has_one_container_of_its_name() {
        let job = of_image(JOB, "hello", "busybox", &["echo".to_owned(), "x".to_owned()]);
        assert_eq!(
            job["spec"]["template"]["spec"],
            json!({"restartPolicy": "Never", "containers": [{"name": "hello", "image": "busybox", "command": ["echo", "x"]}]})
        );
        assert_eq!(
            only(&[]).unwrap_err().to_string(),
            "exactly one NAME is required, got 0"
        );
    }

    #[test]
    fn given_a_schedule_then_the_job_is_made_from_its_template_and_not_controlled_by_it() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {}}}});
        let kind = Kind::of(&advancedcronjob::KIND);
        let nightly = json!({"apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "nightly", "uid": "u"},
            "spec": {"template": {"broadcastJobTemplate": template}}, "status": {"type": "BroadcastJob"}});
        let nightly = object(kind, nightly);
        let bcj = Kind::of(&broadcastjob::KIND);
        let job = of_source(bcj, "now", &nightly).unwrap();
        assert_eq!(
            job["metadata"],
            json!({"name": "now", "labels": {"a": "b"}, "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "name": "nightly", "uid": "u"}]})
        );
        assert_eq!(
            (&job["kind"], &job["spec"]),
            (&json!("BroadcastJob"), &template["spec"])
        );
        let error = of_source(JOB, "now", &nightly).unwrap_err();
        assert_eq!(error.to_string(), "from must be a job template, but got BroadcastJob");
        assert_eq!(source(JOB, "cronjob/x").unwrap().0, CRON_JOB);
        for (kind, from) in [(bcj, "cronjob/x"), (JOB, "deploy/x"), (JOB, "acj/"), (JOB, "acj")] {
            assert!(source(kind, from).is_err(), "{from}");
        }
    }

    #[test]
    fn given_containers_then_only_these_are_asked_for_and_every_flag_counts() {
        let hook = json!({"exec": {"command": ["bye"]}});
        let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [
            {"name": "main", "lifecycle": {"preStop": hook}, "ports": [{"containerPort": 80}]}, {"name": "side", "lifecycle": {}}]}});
        let pod = object(POD, pod);
        let args = |containers: &[&str]| Recreate {
            name: vec!["r".into()],
            pod: "web-0".into(),
            containers: containers.iter().map(|&name| name.to_owned()).collect(),
            unready: 10,
            min_started: 5,
            writing: Writing::default(),
        };
        let all = of_pod("r", &pod, &args(&[])).unwrap();
        assert_eq!(
            all["spec"]["containers"],
            json!([{"name": "main", "preStop": hook, "ports": [{"containerPort": 80}]}, {"name": "side"}])
        );
        let strategy = json!({"failurePolicy": "Fail", "orderedRecreate": false, "unreadyGracePeriodSeconds": 10, "minStartedSeconds": 5});
        assert_eq!(all["spec"]["strategy"], strategy);
        let one = of_pod("r", &pod, &args(&["side"])).unwrap();
        assert_eq!(one["spec"]["containers"], json!([{"name": "side"}]));
        assert!(of_pod("r", &pod, &args(&["x"])).is_err());
    }
}
