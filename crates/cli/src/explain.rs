//! `kubectl kruise explain`.

use crate::{
    args::{Connection, Explain, Output},
    connect::connect,
    manager,
    object::{self, Explained, ExplainedKind},
    protection,
    text::{Explanation, visible_lines},
};
use anyhow::{Context as _, Result, anyhow};
use kruise_api::{cloneset::v1beta1::CloneSet, sidecarset::v1beta1::SidecarSet};
use kube::Client;
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
    match object::read(&args.object)? {
        (ExplainedKind::CloneSet, name) => explain::<CloneSet>(connection, args, name).await,
        (ExplainedKind::SidecarSet, name) => explain::<SidecarSet>(connection, args, name).await,
    }
}

async fn explain<K: Explained>(connection: &Connection, args: &Explain, name: &str) -> Result<Completeness> {
    let (client, namespace) = connect(connection).await?;
    let namespace = if K::IS_OF_CLUSTER { String::new() } else { namespace };
    let full_name = if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    };
    let set = timeout(connection.request_timeout, get::<K>(&client, &namespace, name)).await;
    let set = set.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??;
    let path = format!("{}/{full_name}", K::KIND.to_lowercase());
    let answer = manager::ask(&client, args, &path, connection.request_timeout).await;
    let text = match args.output {
        Output::Json => visible_lines(&format!("{:#}\n", machine_readable(&set, &namespace, name, &answer))),
        Output::Text => Explanation {
            object: format!("{} {full_name}", K::KIND),
            summary: set.summary(),
            description: set.describe(),
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

async fn get<K: Explained>(client: &Client, namespace: &str, name: &str) -> Result<K> {
    match K::get(client.clone(), namespace, name).await {
        Ok(set) => Ok(set),
        // An object that is not there is named in the answer; a kind that is not there is not.
        Err(kube::Error::Api(status))
            if status.code == 404 && status.details.as_ref().is_none_or(|details| details.name != name) =>
        {
            Err(anyhow!(
                "the cluster does not know {}s: OpenKruise is not installed there",
                K::KIND
            ))
        }
        Err(kube::Error::Api(status)) => Err(anyhow!("{}", status.message)),
        Err(error) => Err(error).context("the API server cannot be asked"),
    }
}

fn machine_readable<K: Explained>(set: &K, namespace: &str, name: &str, answer: &Result<manager::Answer>) -> Value {
    let (by, plans, problem) = match answer {
        Ok(answer) => (json!(answer.by), answer.plans.clone(), Value::Null),
        Err(error) => (Value::Null, Value::Null, json!(format!("{error:#}"))),
    };
    json!({
        "apiVersion": K::API_VERSION, "kind": K::KIND, "namespace": namespace, "name": name,
        "generation": set.generation(), "status": set.status(),
        "manager": by, "plans": plans, "problem": problem,
    })
}
