//! `kubectl kruise explain`.

use crate::{
    args::{Connection, Explain, Output},
    connect::connect,
    kinds::Kind,
    manager::{self, Subject},
    object::{self, ExplainedKind},
    protection,
    server::{Refusal, Server},
    text::{Explanation, visible_lines},
};
use anyhow::{Result, anyhow};
use kruise_api::resource::Scope;
use kube::Client;
use serde_json::{Value, json};
use std::{
    io::{self, Write as _},
    time::Duration,
};
use tokio::time::timeout;

/// How much of what was asked for could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completeness {
    All,
    WithoutManager,
    /// What was asked for was not done, or not everywhere.
    Failed,
    /// A command in a container ended so.
    Exit(u8),
}

/// Whoever asks has a deadline of its own, which is shorter.
const PATIENCE: Duration = Duration::from_hours(1);

pub(crate) async fn run(connection: &Connection, args: &Explain) -> Result<Completeness> {
    if let Some(done) = protection::run(connection, args).await? {
        return Ok(done);
    }
    let (kind, name) = object::read(&args.object)?;
    let (client, namespace) = connect(connection).await?;
    let namespace = if kind.info.scope == Scope::Cluster {
        String::new()
    } else {
        namespace
    };
    let full_name = if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    };
    let object = timeout(connection.request_timeout, get(&client, kind, &namespace, name)).await;
    let object =
        object.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))??;
    let about = Subject {
        info: kind.info,
        namespace: &namespace,
        name,
        uid: object["metadata"]["uid"].as_str().unwrap_or_default(),
    };
    let answer = manager::ask(&client, args, &about, connection.request_timeout).await;
    let text = match args.output {
        Output::Json => visible_lines(&format!("{:#}\n", machine_readable(kind, &object, &answer))),
        Output::Text => Explanation {
            object: format!("{} {full_name}", kind.info.kind),
            summary: kind.summary(&object),
            description: kind.describe(&object),
            plans: answer
                .as_ref()
                .map(|answer| &answer.plans)
                .map_err(|error| format!("{error:#}")),
            by: answer.as_ref().map_or("", |answer| &answer.by),
        }
        .text(),
    };
    print(&text)?;
    Ok(if answer.is_ok() {
        Completeness::All
    } else {
        Completeness::WithoutManager
    })
}

/// Prints what was asked for.
pub(crate) fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Reads an object of a kind, as it is in the newest version.
pub(crate) async fn get(client: &Client, kind: &ExplainedKind, namespace: &str, name: &str) -> Result<Value> {
    let server = Server::of(client.clone(), namespace.to_owned(), PATIENCE);
    match server.get(Kind::of(kind.info), None, namespace, name).await {
        Ok(object) => Ok(object.newest()),
        Err(Refusal::Other(error)) => Err(error),
        Err(refusal) => Err(refusal.into()),
    }
}

fn machine_readable(kind: &ExplainedKind, object: &Value, answer: &Result<manager::Answer>) -> Value {
    let (by, plans, problem) = match answer {
        Ok(answer) => (json!(answer.by), answer.plans.clone(), Value::Null),
        Err(error) => (Value::Null, Value::Null, json!(format!("{error:#}"))),
    };
    let metadata = &object["metadata"];
    json!({
        "apiVersion": kind.resource().api_version, "kind": kind.info.kind,
        "namespace": metadata["namespace"].as_str().unwrap_or_default(), "name": metadata["name"],
        "generation": metadata["generation"], "status": object["status"],
        "manager": by, "plans": plans, "problem": problem,
    })
}
