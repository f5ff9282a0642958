//! Variables of containers.

use super::{Target, containers, is_like, pod_specs, pod_specs_or_error};
use crate::{
    args::Connection,
    change::{Change, Decision},
    complain,
    explain::{Completeness, print},
    kinds::{CONFIG_MAP, Kind, SECRET},
    rollout::steer::put_variable,
    select::checked,
    server::{Object, Server},
    text::visible,
};
use anyhow::{Context as _, Error, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io::Read as _};

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise set env cloneset/web LEVEL=debug OLD-\n  kubectl kruise set env clone -l app=web -c main LEVEL=debug\n  \
                  kubectl kruise set env asts/db --from secret/login --prefix DB_\n  kubectl kruise set env cloneset/web --list --resolve\n  \
                  echo LEVEL=debug | kubectl kruise set env cloneset/web -e -"
)]
pub(crate) struct Env {
    #[command(flatten)]
    target: Target,
    /// A variable as `NAME=VALUE`; `-` reads them from the standard input
    #[arg(short, long = "env", value_name = "NAME=VALUE", allow_hyphen_values = true)]
    variables: Vec<String>,
    /// Take all keys of `secret/NAME` or `configmap/NAME`
    #[arg(long, value_name = "TYPE/NAME")]
    from: Option<String>,
    /// Only these keys of it
    #[arg(long, value_name = "KEYS", value_delimiter = ',', requires = "from")]
    keys: Vec<String>,
    /// What the names of these variables begin with
    #[arg(long, default_value = "", requires = "from", hide_default_value = true)]
    prefix: String,
    /// Containers by name, in which `*` stands for anything
    #[arg(short, long, value_name = "PATTERN", default_value = "*")]
    containers: String,
    /// Whether variables that are there may be changed
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    overwrite: bool,
    /// Only list the variables
    #[arg(long)]
    list: bool,
    /// List the values that Secrets and ConfigMaps have
    #[arg(long, requires = "list", conflicts_with = "local")]
    resolve: bool,
}

/// What is to become of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Put(String, String),
    /// From a key of something else.
    Refer(String, Value),
    Remove(String),
}

/// All that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) steps: Vec<Step>,
    pub(super) containers: String,
    pub(super) overwrite: bool,
}

fn is_variable(word: &str) -> bool {
    word.contains('=') || word.ends_with('-')
}

pub(super) async fn run(connection: &Connection, args: &Env) -> Result<Completeness> {
    let (objects, words) = args.target.split(is_variable);
    if args.list {
        return list(connection, args).await;
    }
    let mut steps = words.iter().map(|word| step(word)).collect::<Result<Vec<Step>>>()?;
    for word in &args.variables {
        if word == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the standard input")?;
            steps.extend(lines(&text)?);
        } else {
            steps.push(step(word)?);
        }
    }
    let server = if args.target.local && args.from.is_none() {
        None
    } else {
        Some(Server::connect(connection).await?)
    };
    if let (Some(from), Some(server)) = (&args.from, &server) {
        steps.extend(imported(server, from, args).await?);
    }
    if steps.is_empty() {
        bail!("at least one environment variable must be provided");
    }
    let wanted = Wanted {
        steps,
        containers: args.containers.clone(),
        overwrite: args.overwrite,
    };
    let decide = |object: &Object| {
        let decision = decide(object, &wanted)?;
        if matches!(decision, Decision::Same) {
            let (kind, name, pattern) = (object.kind.word(), object.name(), &wanted.containers);
            eprintln!("warning: {kind}/{name} does not have any containers matching {pattern:?}");
        }
        Ok(decision)
    };
    let change = Change::new("env updated", &args.target.writing);
    match server {
        Some(server) if !args.target.local => {
            let found = objects.find(&server).await?;
            change.all(&server, found, decide).await
        }
        _ => change.local(&objects, decide),
    }
}

/// Reads `NAME=VALUE` or `NAME-`.
pub(super) fn step(word: &str) -> Result<Step> {
    let found = match word.split_once('=') {
        Some((name, value)) => Some((name, Step::Put(name.to_owned(), value.to_owned()))),
        None => word.strip_suffix('-').map(|name| (name, Step::Remove(name.to_owned()))),
    };
    match found {
        Some((name, step)) if !name.is_empty() && !name.chars().any(char::is_whitespace) => Ok(step),
        _ => bail!("{word:?} is neither NAME=VALUE nor NAME-"),
    }
}

/// Reads variables a line each, as a file has them.
pub(super) fn lines(text: &str) -> Result<Vec<Step>> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(step)
        .collect()
}

/// The object with these variables in its containers.
///
/// # Errors
/// When a variable is there and may not be changed.
pub(super) fn decide(object: &Object, wanted: &Wanted) -> Result<Decision> {
    let mut after = object.value.clone();
    let mut is_found = false;
    for pod in pod_specs_or_error(object)? {
        for container in containers(&mut after, &pod, "containers") {
            let name = container["name"].as_str().unwrap_or_default();
            if !is_like(name, &wanted.containers) {
                continue;
            }
            is_found = true;
            for step in &wanted.steps {
                apply(container, step, wanted.overwrite)?;
            }
        }
    }
    Ok(if is_found {
        Decision::Become(after)
    } else {
        Decision::Same
    })
}

fn apply(container: &mut Value, step: &Step, overwrite: bool) -> Result<()> {
    let name = match step {
        Step::Put(name, _) | Step::Refer(name, _) | Step::Remove(name) => name,
    };
    let variables = container["env"].as_array();
    let known = variables.into_iter().flatten().find(|known| known["name"] == **name);
    if let (Some(known), false, false) = (known, overwrite, matches!(step, Step::Remove(_))) {
        let value = known["value"].as_str().unwrap_or_default();
        bail!("'{name}' already has a value ({value}), and --overwrite is false");
    }
    match step {
        Step::Put(name, value) => put_variable(container, name, value),
        Step::Refer(name, source) => {
            put_variable(container, name, "");
            let variables = container["env"].as_array_mut();
            let mut variables = variables.into_iter().flatten();
            if let Some(variable) = variables.find(|known| known["name"] == **name) {
                *variable = json!({"name": name, "valueFrom": source});
            }
        }
        Step::Remove(name) => {
            if let Some(variables) = container["env"].as_array_mut() {
                variables.retain(|known| known["name"] != **name);
            }
        }
    }
    Ok(())
}

/// One variable for each key of a Secret or ConfigMap.
async fn imported(server: &Server, from: &str, args: &Env) -> Result<Vec<Step>> {
    let (kind, field) = match from.split_once('/').map(|(kind, _)| kind.to_lowercase()).as_deref() {
        Some("secret" | "secrets") => (SECRET, "secretKeyRef"),
        Some("configmap" | "configmaps" | "cm") => (CONFIG_MAP, "configMapKeyRef"),
        _ => bail!("{from:?} is neither secret/NAME nor configmap/NAME"),
    };
    let name = checked(from.split_once('/').map_or("", |(_, name)| name))?;
    let source = server.get(kind, None, &server.namespace, name).await?;
    Ok(references(&source.value, field, name, &args.prefix, &args.keys))
}

/// Names are in capitals, with `_` for what may not be in a name.
pub(super) fn references(source: &Value, field: &str, name: &str, prefix: &str, keys: &[String]) -> Vec<Step> {
    let data = source["data"].as_object();
    let all = data.into_iter().flat_map(|data| data.keys());
    let chosen = all.filter(|key| keys.is_empty() || keys.contains(key));
    let fit = |sign: char| {
        if sign.is_ascii_alphanumeric() {
            sign.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    chosen
        .map(|key| {
            let variable: String = format!("{prefix}{}", key.chars().map(fit).collect::<String>());
            Step::Refer(variable, json!({field: {"name": name, "key": key}}))
        })
        .collect()
}

async fn list(connection: &Connection, args: &Env) -> Result<Completeness> {
    let (objects, _) = args.target.split(is_variable);
    let (server, found) = args.target.found(connection, &objects).await?;
    for object in &found.objects {
        let sources = match &server {
            Some(server) if args.resolve => sources(server, object, &args.containers).await,
            _ => Sources::new(),
        };
        print(&listed(object, &args.containers, &sources))?;
    }
    for error in &found.errors {
        complain(error);
    }
    Ok(if found.errors.is_empty() {
        Completeness::All
    } else {
        Completeness::Failed
    })
}

/// What Secrets and ConfigMaps have, or why that is not known, by kind and name.
pub(super) type Sources = BTreeMap<(&'static str, String), Result<Value, String>>;

/// Where variables take their values from, and the field of such a reference.
const REFERENCES: [(&str, Kind); 2] = [("secretKeyRef", SECRET), ("configMapKeyRef", CONFIG_MAP)];

/// Reads what the variables of an object refer to.
async fn sources(server: &Server, object: &Object, pattern: &str) -> Sources {
    // Objects of the cluster make Pods of any namespace.
    let own = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
    let namespace = own.unwrap_or(&server.namespace);
    let mut sources = Sources::new();
    for (_, variables) in variables(object, pattern) {
        for (field, kind) in REFERENCES {
            let named = variables
                .iter()
                .filter_map(|variable| variable["valueFrom"][field]["name"].as_str());
            for name in named {
                let key = (field, name.to_owned());
                if sources.contains_key(&key) {
                    continue;
                }
                let read = match checked(name) {
                    Ok(name) => server
                        .get(kind, None, namespace, name)
                        .await
                        .map_err(|refusal| Error::from(refusal).to_string()),
                    Err(error) => Err(error.to_string()),
                };
                sources.insert(key, read.map(|source| source.value));
            }
        }
    }
    sources
}

/// The value that a variable takes from a Secret or ConfigMap; nothing when it takes none from there, or that was not read.
fn resolved(variable: &Value, sources: &Sources) -> Option<Result<String, String>> {
    let (field, reference) = REFERENCES
        .iter()
        .find_map(|(field, _)| Some((*field, variable["valueFrom"].get(field)?)))?;
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let source = match sources.get(&(field, text("name").to_owned()))? {
        Ok(source) => source,
        Err(error) => return Some(Err(error.clone())),
    };
    let key = text("key");
    let Some(value) = source["data"][key].as_str() else {
        return Some(Err(format!("there is no key {key} in {}", text("name"))));
    };
    if field == "configMapKeyRef" {
        return Some(Ok(value.to_owned()));
    }
    let bytes = STANDARD.decode(value).ok();
    let value = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Some(value.ok_or_else(|| format!("key {key} of {} is no text", text("name"))))
}

/// The variables of each container that is meant.
fn variables<'o>(object: &'o Object, pattern: &str) -> Vec<(&'o str, &'o [Value])> {
    let mut found = Vec::new();
    for pod in pod_specs(object) {
        let all = object.value.pointer(&format!("{pod}/containers"));
        for container in all.and_then(Value::as_array).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default();
            if is_like(name, pattern) {
                found.push((name, container["env"].as_array().map_or(&[][..], Vec::as_slice)));
            }
        }
    }
    found
}

/// All variables, container by container.
pub(super) fn listed(object: &Object, pattern: &str, sources: &Sources) -> String {
    let mut text = String::new();
    for (container, variables) in variables(object, pattern) {
        let head = format!("# {} {}, container {container}", object.kind.kind, object.name());
        text.push_str(&format!("{}\n", visible(&head)));
        for variable in variables {
            let name = variable["name"].as_str().unwrap_or_default();
            let line = match (variable.get("valueFrom"), resolved(variable, sources)) {
                (_, Some(Ok(value))) => format!("{name}={value}"),
                (_, Some(Err(error))) => format!("# {name}: {error}"),
                (Some(source), None) => format!("# {name} from {source}"),
                (None, None) => format!("{name}={}", variable["value"].as_str().unwrap_or_default()),
            };
            text.push_str(&format!("{}\n", visible(&line)));
        }
    }
    text
}
