//! `kubectl kruise set`: images, variables, resources and the account of a workload's Pods.
//!
//! Words with `=` say what to set, and so do those that end in `-` for variables; the others say on which objects. Only what changes is written, and nothing is told of an
//! object that is already so. When one part of it cannot be done on an object, nothing of it is.

mod env;
mod image;
mod resources;

use crate::{
    args::Connection,
    change::{Change, Decision, Writing, set as put},
    explain::Completeness,
    select::{Chosen, Objects},
    server::{Object, Server},
};
use anyhow::{Result, bail};
use clap::Subcommand;
use kruise_api::{advancedcronjob, sidecarset, uniteddeployment};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Set {
    /// Set images of containers, by name or of all with `*`
    Image(Image),
    /// Set, remove or list variables of containers
    Env(env::Env),
    /// Set limits and requests of containers
    Resources(resources::Resources),
    /// Set the account that Pods run as
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(ServiceAccount),
}

/// Objects and what to set on them, in any order.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Target {
    /// `TYPE NAME` or `TYPE/NAME`, and what to set
    #[arg(value_name = "TYPE/NAME WHAT")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Change what is in the files and print it; do not ask the API server
    #[arg(long, requires = "files")]
    pub(crate) local: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise set image cloneset/web main=nginx:1.27\n  kubectl kruise set image clone -l app=web '*=nginx:1.27'\n  \
                  kubectl kruise set image sidecarset/log log=log:2 --dry-run=server\n  kubectl kruise set image -f web.yaml main=nginx:1.27 --local -o yaml"
)]
pub(crate) struct Image {
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise set serviceaccount cloneset web robot\n  kubectl kruise set sa asts/db robot"
)]
pub(crate) struct ServiceAccount {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(connection: &Connection, set: &Set) -> Result<Completeness> {
    match set {
        Set::Image(Image { target }) => {
            let (objects, pairs) = target.split(|word| word.contains('='));
            let images = image::read(&pairs)?;
            let decide = |object: &Object| image::decide(object, &images);
            target.run(connection, &objects, "image updated", decide).await
        }
        Set::Env(args) => env::run(connection, args).await,
        Set::Resources(args) => {
            let wanted = args.read()?;
            let (objects, odd) = args.target.split(|word| word.contains('='));
            if let Some(odd) = odd.first() {
                bail!("{odd:?} is not an object; say what to set with --limits and --requests");
            }
            let decide = |object: &Object| resources::decide(object, &wanted);
            let done = "resource requirements updated";
            args.target.run(connection, &objects, done, decide).await
        }
        Set::ServiceAccount(ServiceAccount { target }) => {
            let Some((account, words)) = target.words.split_last() else {
                bail!("serviceaccount is required");
            };
            crate::select::checked(account)?;
            let objects = target.objects(words.to_vec());
            let decide = |object: &Object| self::account(object, account);
            target.run(connection, &objects, "serviceaccount updated", decide).await
        }
    }
}

impl Target {
    /// Divides the words into those that say on which objects, and those that say what to set.
    fn split(&self, is_what: impl Fn(&str) -> bool) -> (Objects, Vec<String>) {
        let (what, words) = self.words.iter().cloned().partition(|word| is_what(word));
        (self.objects(words), what)
    }

    fn objects(&self, words: Vec<String>) -> Objects {
        Objects {
            words,
            chosen: self.chosen.clone(),
        }
    }

    async fn run(
        &self,
        connection: &Connection,
        objects: &Objects,
        done: &str,
        decide: impl Fn(&Object) -> Result<Decision>,
    ) -> Result<Completeness> {
        let change = Change::new(done, &self.writing);
        if self.local {
            return change.local(objects, decide);
        }
        change.run(connection, objects, decide).await
    }

    /// Finds the objects, wherever they are.
    async fn found(
        &self,
        connection: &Connection,
        objects: &Objects,
    ) -> Result<(Option<Server>, crate::select::Found)> {
        if self.local {
            return Ok((None, objects.local()?));
        }
        let server = Server::connect(connection).await?;
        let found = objects.find(&server).await?;
        Ok((Some(server), found))
    }
}

/// The places in an object where Pods are described, as pointers.
pub(crate) fn pod_specs(object: &Object) -> Vec<String> {
    let kind = object.kind;
    if kind.is(&sidecarset::KIND) {
        return vec!["/spec".to_owned()];
    }
    let has_templates = kind.is(&uniteddeployment::KIND) || kind.is(&advancedcronjob::KIND);
    let paths: Vec<String> = if has_templates {
        let templates = object.value.pointer("/spec/template").and_then(Value::as_object);
        let names = templates.into_iter().flat_map(Map::keys);
        names
            .map(|name| format!("/spec/template/{name}/spec/template/spec"))
            .collect()
    } else {
        vec!["/spec/template/spec".to_owned()]
    };
    let is_there = |path: &String| object.value.pointer(path).is_some_and(Value::is_object);
    paths.into_iter().filter(is_there).collect()
}

/// The same, or an error when an object has no Pods.
fn pod_specs_or_error(object: &Object) -> Result<Vec<String>> {
    let paths = pod_specs(object);
    if paths.is_empty() {
        bail!("{} is not a pod or does not have a pod template", object.quoted());
    }
    Ok(paths)
}

/// The containers of a Pod in a field.
fn containers<'a>(object: &'a mut Value, pod: &str, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.pointer_mut(&format!("{pod}/{field}"));
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Whether a name is meant by a pattern in which `*` stands for anything.
fn is_like(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|name| (0..=name.len()).any(|at| name.is_char_boundary(at) && is_like(&name[at..], rest))),
    }
}

fn account(object: &Object, account: &str) -> Result<Decision> {
    if object.kind.is(&sidecarset::KIND) {
        bail!(
            "{} has no account of its own: its containers run in Pods of others",
            object.quoted()
        );
    }
    let mut after = object.value.clone();
    for pod in pod_specs_or_error(object)? {
        if let Some(pod) = after.pointer_mut(&pod) {
            put(pod, &["serviceAccountName"], json!(account));
        }
    }
    Ok(Decision::Become(after))
}

#[cfg(test)]
mod tests;
