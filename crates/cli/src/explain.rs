//! `kubectl kruise explain`.

use crate::{
    args::{Connection, Explain, Output},
    connect::connect,
    manager, object, protection,
    text::{Explanation, visible_lines},
};
use anyhow::{Context as _, Result, anyhow};
use kruise_api::{cloneset::v1beta1::CloneSet, kind::Kind as _};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::io::{self, Write as _};
use tokio::time::timeout;

/// How much of what was asked for could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completeness {
    All,
    WithoutManager,
    /// What was asked for was not done, or not everywhere.
    Failed,
}

pub(crate) async fn run(connection: &Connection, args: &Explain) -> Result<Completeness> {
    if let Some(done) = protection::run(connection, args).await? {
        return Ok(done);
    }
    let name = object::read(&args.object)?;
    let (client, namespace) = connect(connection).await?;
    let set = timeout(connection.request_timeout, get(&client, &namespace, name)).await;
    let set = set.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??;
    let path = format!("{}/{namespace}/{name}", CloneSet::KIND.to_lowercase());
    let answer = manager::ask(&client, args, &path, connection.request_timeout).await;
    let text = match args.output {
        Output::Json => visible_lines(&format!("{:#}\n", machine_readable(&set, &namespace, name, &answer))),
        Output::Text => Explanation {
            object: format!("{} {namespace}/{name}", CloneSet::KIND),
            summary: object::summary(&set),
            description: object::describe(&set),
            plans: answer
                .as_ref()
                .map(|answer| &answer.plans)
                .map_err(|error| format!("{error:#}")),
            by: answer.as_ref().map_or("", |answer| &answer.by),
        }
        .text(),
    };
    io::stdout()
        .write_all(text.as_bytes())
        .or_else(|error| match error.kind() {
            // Whoever reads has seen enough.
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
    Ok(if answer.is_ok() {
        Completeness::All
    } else {
        Completeness::WithoutManager
    })
}

async fn get(client: &Client, namespace: &str, name: &str) -> Result<CloneSet> {
    let api: Api<CloneSet> = Api::namespaced(client.clone(), namespace);
    match api.get(name).await {
        Ok(set) => Ok(set),
        // An object that is not there is named in the answer; a kind that is not there is not.
        Err(kube::Error::Api(status))
            if status.code == 404 && status.details.as_ref().is_none_or(|details| details.name != name) =>
        {
            Err(anyhow!(
                "the cluster does not know CloneSets: OpenKruise is not installed there"
            ))
        }
        Err(kube::Error::Api(status)) => Err(anyhow!("{}", status.message)),
        Err(error) => Err(error).context("the API server cannot be asked"),
    }
}

fn machine_readable(set: &CloneSet, namespace: &str, name: &str, answer: &Result<manager::Answer>) -> Value {
    let (by, plans, problem) = match answer {
        Ok(answer) => (json!(answer.by), answer.plans.clone(), Value::Null),
        Err(error) => (Value::Null, Value::Null, json!(format!("{error:#}"))),
    };
    json!({
        "apiVersion": CloneSet::API_VERSION, "kind": CloneSet::KIND, "namespace": namespace, "name": name,
        "generation": set.metadata.generation, "status": set.status,
        "manager": by, "plans": plans, "problem": problem,
    })
}
