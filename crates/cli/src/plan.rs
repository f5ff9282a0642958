//! `kubectl kruise plan -f new.yaml`: what would this change do? Nothing is written anywhere.
//!
//! - The file is put over the object that is there as `kubectl apply` does it ([`proposal`]).
//! - The manager completes and checks that as a write, and plays it through from what is there now: which Pods are updated in place and which are made anew, in which order, within which budget.
//! - It is asked as `explain` asks it, by a question that is created in a dry run: reading the object and asking are all the rights that it takes.
//! - Exit code 1 when a change would be refused or cannot be told, 3 when no manager can be asked.

mod proposal;
mod words;

use crate::{
    args::{Connection, Output},
    connect::connect,
    explain::{Completeness, print},
    manager::{self, Subject},
    select::contents_of,
    text::visible_lines,
};
use anyhow::{Context as _, Result, anyhow, bail};
use kruise_api::{
    registry::{KINDS, KindInfo},
    resource::Scope,
};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use proposal::Change;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::time::timeout;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise plan -f web.yaml\n  kubectl kruise plan -f web.yaml -n shop -o json\n  kustomize build . | kubectl kruise plan -f -\n\nQuotas, PodUnavailableBudgets and room on nodes are not looked at: they may make a change slower than is told."
)]
pub(crate) struct Plan {
    /// A file with the objects as they are to be; `-` is the standard input
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// What is told of one object.
#[derive(Debug)]
struct Report {
    /// `CloneSet shop/web`.
    object: String,
    /// It is not there yet.
    is_new: bool,
    changes: Vec<Change>,
    answer: Answer,
}

/// What is known of a change.
#[derive(Debug)]
enum Answer {
    /// The manager's, and who gave it.
    Proposal { proposal: Value, by: String },
    /// Nobody can be asked about it.
    Unknown(String),
    /// No manager can be asked.
    NoManager(String),
}

pub(crate) async fn run(connection: &Connection, args: &Plan) -> Result<Completeness> {
    let mut objects = Vec::new();
    for file in &args.files {
        objects.extend(proposal::read(&contents_of(file)?).with_context(|| format!("cannot read {}", file.display()))?);
    }
    if objects.is_empty() {
        bail!("there is no object in what was given");
    }
    let (client, namespace) = connect(connection).await?;
    let mut all = Vec::new();
    for object in &objects {
        let time = connection.request_timeout;
        let report = timeout(time, report(&client, connection, &namespace, object)).await;
        all.push(report.map_err(|_| anyhow!("the API server does not answer within {time:?}"))??);
    }
    print(&match args.output {
        Output::Text => all.iter().map(words::text).collect::<Vec<_>>().join("\n"),
        Output::Json => {
            let items: Vec<Value> = all.iter().map(json_of).collect();
            visible_lines(&format!("{:#}\n", json!({ "items": items })))
        }
    })?;
    let is_refused = |report: &Report| match &report.answer {
        Answer::Proposal { proposal, .. } => proposal.get("refused").is_some(),
        Answer::Unknown(_) => true,
        Answer::NoManager(_) => false,
    };
    Ok(if all.iter().any(is_refused) {
        Completeness::Failed
    } else if all.iter().any(|report| matches!(report.answer, Answer::NoManager(_))) {
        Completeness::WithoutManager
    } else {
        Completeness::All
    })
}

async fn report(client: &Client, connection: &Connection, default: &str, object: &Value) -> Result<Report> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let Some((info, version)) = known(text("/apiVersion"), kind) else {
        let reason = "it is no kind of OpenKruise, and only for those it can be told".to_owned();
        return Ok(Report {
            object: format!("{kind} {name}"),
            is_new: false,
            changes: Vec::new(),
            answer: Answer::Unknown(reason),
        });
    };
    if name.is_empty() {
        bail!("a {kind} has no name: say it in metadata.name");
    }
    let namespace = match (info.scope, text("/metadata/namespace")) {
        (Scope::Cluster, _) => "",
        (Scope::Namespaced, "") => default,
        (Scope::Namespaced, named) if connection.namespace.as_deref().is_some_and(|wanted| wanted != named) => {
            bail!("{kind} {name} is of namespace {named}, and --namespace says {default}")
        }
        (Scope::Namespaced, named) => named,
    };
    let live = get(client, info, version, namespace, name).await?;
    let proposed = proposal::apply(live.as_ref(), object);
    let about = Subject {
        info,
        namespace,
        name,
        uid: live
            .as_ref()
            .and_then(|live| live["metadata"]["uid"].as_str())
            .unwrap_or_default(),
    };
    let mut completed = None;
    let answer = match manager::propose(client, &about, &proposed).await {
        Ok(Some((mut proposal, by))) => {
            // An older manager does not say it.
            completed = proposal.as_object_mut().and_then(|fields| fields.remove("completed"));
            Answer::Proposal { proposal, by }
        }
        Ok(None) => Answer::NoManager(
            "no manager answers such questions in this cluster: it is not running, or older than this plugin"
                .to_owned(),
        ),
        Err(error) => Answer::NoManager(format!("{error:#}")),
    };
    let proposed = completed.unwrap_or(proposed);
    let changes = live.as_ref().map(|live| proposal::changes(live, &proposed));
    let place = if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    };
    Ok(Report {
        object: format!("{kind} {place}"),
        is_new: live.is_none(),
        changes: changes.unwrap_or_default(),
        answer,
    })
}

/// A kind of ours and the name of its version.
fn known(api_version: &str, kind: &str) -> Option<(&'static KindInfo, &'static str)> {
    let (group, version) = api_version.split_once('/')?;
    let info: &KindInfo = KINDS.iter().find(|info| (info.group, info.kind) == (group, kind))?;
    let version = info.versions.iter().find(|known| known.name == version)?;
    Some((info, version.name))
}

async fn get(client: &Client, info: &KindInfo, version: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
    let kind = GroupVersionKind::gvk(info.group, version, info.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, info.plural);
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    };
    match api.get(name).await {
        Ok(object) => Ok(Some(serde_json::to_value(object)?)),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            if status.details.is_some_and(|details| details.name == name) {
                return Ok(None);
            }
            bail!(
                "the cluster does not know {}s of {}/{version}: OpenKruise is not installed there",
                info.kind,
                info.group
            )
        }
        Err(kube::Error::Api(status)) => bail!("{}", status.message),
        Err(error) => Err(error).context("the API server cannot be asked"),
    }
}

fn json_of(report: &Report) -> Value {
    let changes: Vec<Value> = report.changes.iter().map(Change::json).collect();
    let mut json = json!({"object": report.object, "isNew": report.is_new, "changes": changes});
    match &report.answer {
        Answer::Proposal { proposal, by } => {
            json["manager"] = json!(by);
            json["proposal"] = proposal.clone();
        }
        Answer::Unknown(why) | Answer::NoManager(why) => json["problem"] = json!(why),
    }
    json
}
