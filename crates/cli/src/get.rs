//! `kubectl kruise get`: how far objects are, and what they wait for.
//!
//! - Without a kind, or with `all`: one table over all kinds of ours in the namespace, or in all of them with `-A`; objects of the cluster, such as SidecarSets, are in it
//!   as far as the user may see them.
//! - With a kind, and names: the same table of these objects, also of Kubernetes' own workloads. `-o json|yaml|name` prints the objects themselves.
//! - `-w` goes on with what changes, a line each.
//! - A BroadcastJob by its name is told by its nodes, see [`crate::broadcastjob_nodes`].

pub(crate) mod row;

use crate::{
    args::Connection,
    broadcastjob_nodes,
    explain::{Completeness, print},
    kinds::Kind,
    print::{Format, is_coloured, items, many, paint},
    select::{Found, Objects, Request, requests},
    server::{Object, Refusal, Server, not_installed},
    table::Table,
};
use anyhow::{Error, Result, anyhow};
use jiff::Timestamp;
use kruise_api::{broadcastjob, nodeimage, nodepodprobe, resource::Scope};
use row::Row;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::Duration,
};
use tokio::task::JoinSet;

/// How often it is looked what has changed.
const EVERY: Duration = Duration::from_secs(2);
/// Looks in a row that may fail.
const PATIENCE: u32 = 20;

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise get\n  kubectl kruise get -A -w\n  kubectl kruise get clonesets -o wide\n  kubectl kruise get cloneset web asts/db\n  \
                  kubectl kruise get sidecarset -l team=mesh -o yaml\n  kubectl kruise get broadcastjob clean-up"
)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// How to print it
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
    /// Go on with what changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Leave out the line with the names of the columns
    #[arg(long)]
    pub(crate) no_headers: bool,
}

pub(crate) async fn run(connection: &Connection, args: &Get) -> Result<Completeness> {
    if let Some(words) = broadcast_job(args) {
        return broadcastjob_nodes::run(connection, words).await;
    }
    let server = Server::connect(connection).await?;
    let found = find(&server, args).await?;
    let mut shown = Shown::new(args);
    let is_empty = found.objects.is_empty() && found.errors.is_empty();
    if is_empty && !matches!(args.output, Some(Format::Json | Format::Yaml)) {
        eprintln!("{}", nothing(args, &server.namespace));
    } else if !found.objects.is_empty() || is_empty {
        shown.print(&found.objects)?;
    }
    let failed = !found.errors.is_empty();
    for error in found.errors {
        crate::complain(&error);
    }
    if args.watch && !failed {
        shown.watch(&server, args).await?;
    }
    Ok(if failed {
        Completeness::Failed
    } else {
        Completeness::All
    })
}

fn nothing(args: &Get, namespace: &str) -> String {
    if args.objects.chosen.all_namespaces {
        "No resources found".to_owned()
    } else {
        format!("No resources found in {namespace} namespace.")
    }
}

/// The words when a single BroadcastJob is named, and nothing else is asked for.
fn broadcast_job(args: &Get) -> Option<&[String]> {
    if args.output.is_some() || args.watch {
        return None;
    }
    match requests(&args.objects.words).ok()?.as_slice() {
        [
            Request {
                kind, name: Some(_), ..
            },
        ] if kind.is(&broadcastjob::KIND) => Some(&args.objects.words),
        _ => None,
    }
}

fn is_overview(args: &Get) -> bool {
    let words = &args.objects.words;
    words.is_empty() && args.objects.chosen.files.is_empty() || words.len() == 1 && words[0].eq_ignore_ascii_case("all")
}

async fn find(server: &Server, args: &Get) -> Result<Found> {
    if is_overview(args) {
        overview(server, args).await
    } else {
        args.objects.find_all(server).await
    }
}

/// All objects of ours, by kind.
async fn overview(server: &Server, args: &Get) -> Result<Found> {
    let chosen = &args.objects.chosen;
    let mut lists = JoinSet::new();
    // One object per node says nothing in a list of workloads.
    let is_wanted = |kind: &Kind| !kind.is(&nodeimage::KIND) && !kind.is(&nodepodprobe::KIND);
    let kinds: Vec<Kind> = Kind::all_ours().filter(is_wanted).collect();
    for (place, kind) in kinds.iter().copied().enumerate() {
        let (server, labels) = (server.clone(), chosen.selector.clone());
        let everywhere = chosen.all_namespaces || kind.scope == Scope::Cluster;
        lists.spawn(async move {
            let within = (!everywhere).then(|| server.namespace.clone());
            let listed = server.list(kind, None, within.as_deref(), labels.as_deref()).await;
            (place, listed)
        });
    }
    let mut found: BTreeMap<usize, Vec<Object>> = BTreeMap::new();
    let (mut forbidden, mut served) = (Vec::new(), false);
    while let Some(list) = lists.join_next().await {
        let (place, list) = list?;
        match list {
            Ok(Some(objects)) => {
                served = true;
                found.insert(place, objects);
            }
            Ok(None) => {}
            // Most users may not see what is not in their namespace.
            Err(Refusal::Forbidden(_)) if kinds[place].scope == Scope::Cluster => {}
            Err(Refusal::Forbidden(text)) => forbidden.push((place, text)),
            Err(Refusal::Other(error)) => return Err(error),
            Err(refusal) => return Err(refusal.into()),
        }
    }
    forbidden.sort();
    if !served && forbidden.is_empty() {
        return Err(not_installed(&kinds));
    }
    Ok(Found {
        objects: found.into_values().flatten().collect(),
        errors: refused(&forbidden, &kinds).into_iter().collect(),
    })
}

/// One sentence about all kinds that the user may not list.
fn refused(forbidden: &[(usize, String)], kinds: &[Kind]) -> Option<Error> {
    match forbidden {
        [] => None,
        [(_, text)] => Some(anyhow!("{text}")),
        [(_, text), others @ ..] => {
            let names: Vec<&str> = others.iter().map(|(place, _)| kinds[*place].plural).collect();
            Some(anyhow!("{text}; nor can it list {}", names.join(", ")))
        }
    }
}

/// What was printed so far.
struct Shown<'a> {
    args: &'a Get,
    table: Option<Table>,
    is_coloured: bool,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Get) -> Self {
        Self {
            args,
            table: None,
            is_coloured: is_coloured(io::stdout().is_terminal()),
        }
    }

    fn print(&mut self, objects: &[Object]) -> Result<()> {
        let is_one = objects.len() == 1 && self.args.objects.words.iter().any(|word| word.contains('/'))
            || self.args.objects.words.len() == 2;
        let text = match self.args.output {
            None => self.rows(objects, false),
            Some(Format::Wide) => self.rows(objects, true),
            Some(format) if self.args.watch => items(objects, format)?,
            Some(format) => many(objects, format, is_one && objects.len() == 1)?,
        };
        print(&text)
    }

    fn rows(&mut self, objects: &[Object], is_wide: bool) -> String {
        let now = Timestamp::now();
        let rows: Vec<Row> = objects.iter().map(|object| Row::of(object, now)).collect();
        let with_namespace = self.args.objects.chosen.all_namespaces;
        let is_first = self.table.is_none();
        let head = row::head(with_namespace, is_wide);
        let table = self.table.get_or_insert_with(|| Table::new(&head));
        let cells: Vec<_> = rows.iter().map(|row| row.cells(with_namespace, is_wide)).collect();
        let state = head.iter().position(|name| *name == row::STATE);
        table.lines(&cells, is_first && !self.args.no_headers, |place, column, cell| {
            if self.is_coloured && Some(column) == state {
                paint(rows[place].tone, cell)
            } else {
                cell.to_owned()
            }
        })
    }

    /// Prints what changes until nobody reads it any more.
    async fn watch(&mut self, server: &Server, args: &Get) -> Result<()> {
        let mut known = versions(&find(server, args).await?.objects);
        let mut failed = 0;
        loop {
            tokio::time::sleep(EVERY).await;
            let now = match find(server, args).await {
                Ok(found) => found.objects,
                Err(error) if failed >= PATIENCE => return Err(error),
                Err(_) => {
                    failed += 1;
                    continue;
                }
            };
            failed = 0;
            let changed: Vec<Object> = now.iter().filter(|object| is_news(&known, object)).cloned().collect();
            if !changed.is_empty() {
                self.print(&changed)?;
            }
            known = versions(&now);
        }
    }
}

type Versions = BTreeMap<String, String>;

fn version(object: &Object) -> &str {
    object.value["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn versions(objects: &[Object]) -> Versions {
    let all = objects.iter();
    all.map(|object| (object.uid().to_owned(), version(object).to_owned()))
        .collect()
}

fn is_news(known: &Versions, object: &Object) -> bool {
    known.get(object.uid()).is_none_or(|known| known != version(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_may_not_be_listed_are_told_in_one_sentence() {
        let kinds: Vec<Kind> = Kind::all_ours().collect();
        let text = |place: usize| (place, format!("cannot list {}", kinds[place].plural));
        assert!(refused(&[], &kinds).is_none());
        assert_eq!(
            refused(&[text(1)], &kinds).unwrap().to_string(),
            "cannot list broadcastjobs"
        );
        assert_eq!(
            refused(&[text(1), text(2), text(3)], &kinds).unwrap().to_string(),
            "cannot list broadcastjobs; nor can it list clonesets, containerrecreaterequests"
        );
    }
}
