//! `kubectl kruise rollout` and `promote`: see how a rollout goes, and steer it.
//!
//! The words are those of kubectl and of the plugin that people know: what was done, the lines of `status`, and the exit codes.

mod follow;
pub(crate) mod revisions;
pub(crate) mod status;
pub(crate) mod steer;

use crate::{
    args::{Connection, parse_time},
    change::{Change, Decision, DryRun, Writing},
    complain,
    explain::{Completeness, print},
    print::{Format, Written, document},
    select::{Found, Objects},
    server::{Object, Server},
    template,
};
use anyhow::{Result, anyhow};
use clap::Subcommand;
use jiff::Zoned;
use kruise_api::shared::IntOrPercent;
use revisions::Revision;
use std::time::Duration;
use steer::{Promotion, Step};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Rollout {
    /// Show how far a rollout is, until it is done
    Status(Status),
    /// Show the revisions of a workload, and what changed between them
    History(History),
    /// Go back to an earlier revision
    Undo(Undo),
    /// Pause a rollout where it is
    Pause(Steer),
    /// Let a paused rollout go on
    Resume(Steer),
    /// Start all Pods of a workload anew, within its budget
    Restart(Steer),
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise rollout status cloneset/web\n  kubectl kruise rollout status asts db --timeout 10m\n  \
                  kubectl kruise rollout status cloneset/web --watch=false --detail\n\nThe exit code is 0 when the rollout is complete, and 1 when it failed or the time was up."
)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Stay until it is done; with `false`, tell how far it is now
    #[arg(
        short,
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    pub(crate) watch: bool,
    /// Give up after so long; never when 0
    #[arg(long, value_name = "TIME", value_parser = parse_patience, default_value = "0")]
    pub(crate) timeout: Patience,
    /// Fail when a Deployment is at another revision than this
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) revision: i64,
    /// Name the updated Pods that are ready, and those that are not
    #[arg(short, long)]
    pub(crate) detail: bool,
}

/// How long to wait; for ever when there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Patience(pub(crate) Option<Duration>);

/// As kubectl: 0 means for ever.
fn parse_patience(text: &str) -> Result<Patience, String> {
    if matches!(text, "0" | "0s") {
        return Ok(Patience(None));
    }
    parse_time(text).map(|time| Patience(Some(time)))
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise rollout history cloneset/web\n  kubectl kruise rollout history cloneset/web --revision 3\n  \
                  kubectl kruise rollout history asts/db --diff\n  kubectl kruise rollout history ads/agent -o json"
)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Show the template of this revision, and what changed since the one before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) revision: i64,
    /// Show what changed from each revision to the next
    #[arg(long, conflicts_with = "revision")]
    pub(crate) diff: bool,
    /// Print the history as data
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Written>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise rollout undo cloneset/web\n  kubectl kruise rollout undo asts/db --to-revision 3\n  \
                  kubectl kruise rollout undo ads/agent --dry-run=client"
)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// The revision to go back to; the one before the newest when 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) to_revision: i64,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise rollout pause cloneset/web asts/db\n  kubectl kruise rollout resume cloneset/web\n  \
                  kubectl kruise rollout restart cloneset -l app=web\n  kubectl kruise rollout restart -f web.yaml"
)]
pub(crate) struct Steer {
    #[command(flatten)]
    pub(crate) objects: Objects,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise promote cloneset/web\n  kubectl kruise promote cloneset/web --by 20%\n  kubectl kruise promote asts/db --full\n\n\
                  A step lets twice as many Pods be updated as before, and at least one more."
)]
pub(crate) struct Promote {
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// So many more Pods, as a number or a percentage
    #[arg(long, value_name = "COUNT", value_parser = parse_count, conflicts_with = "full")]
    pub(crate) by: Option<IntOrPercent>,
    /// All Pods
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

fn parse_count(text: &str) -> Result<IntOrPercent, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<i32>() {
        Ok(count) if count > 0 && number.len() == text.len() => Ok(IntOrPercent::Int(count)),
        Ok(count) if count > 0 => Ok(IntOrPercent::from(text)),
        _ => Err(format!("{text:?} is neither a number nor a percentage above 0")),
    }
}

pub(crate) async fn run(connection: &Connection, rollout: &Rollout) -> Result<Completeness> {
    match rollout {
        Rollout::Status(args) => follow::run(connection, args).await,
        Rollout::History(args) => history(connection, args).await,
        Rollout::Undo(args) => undo(connection, args).await,
        Rollout::Pause(Steer { objects, writing }) => {
            let change = Change::new("paused", writing);
            change
                .run(connection, objects, |object| steer::pause(object, true))
                .await
        }
        Rollout::Resume(Steer { objects, writing }) => {
            let change = Change::new("resumed", writing);
            change
                .run(connection, objects, |object| steer::pause(object, false))
                .await
        }
        Rollout::Restart(Steer { objects, writing }) => {
            let now = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
            let change = Change::new("restarted", writing);
            change
                .run(connection, objects, |object| steer::restart(object, &now))
                .await
        }
    }
}

pub(crate) async fn promote(connection: &Connection, args: &Promote) -> Result<Completeness> {
    let step = match (&args.by, args.full) {
        (_, true) => Step::Full,
        (Some(count), _) => Step::By(count.clone()),
        (None, false) => Step::Double,
    };
    let server = Server::connect(connection).await?;
    let mut found = args.objects.find(&server).await?;
    for object in std::mem::take(&mut found.objects) {
        // What is told depends on the object as it is when it is written.
        let done = match steer::promote(&object, &step) {
            Ok(Promotion { done, .. }) => done,
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let change = Change::new(&done, &args.writing);
        let decide = |object: &Object| steer::promote(object, &step).map(|promotion| promotion.decision);
        if let Err(error) = change.one(&server, object, decide).await {
            found.errors.push(error);
        }
    }
    Ok(completeness(&found))
}

/// Tells all errors.
fn completeness(found: &Found) -> Completeness {
    for error in &found.errors {
        complain(error);
    }
    if found.errors.is_empty() {
        Completeness::All
    } else {
        Completeness::Failed
    }
}

async fn history(connection: &Connection, args: &History) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    let mut found = args.objects.find(&server).await?;
    let mut all = Vec::new();
    for object in &found.objects {
        match shown(&server, object, args).await {
            Ok(Shown::Text(text)) => print(&text)?,
            Ok(Shown::Data(data)) => all.push(data),
            Err(error) => found.errors.push(error),
        }
    }
    if let Some(format) = args.output {
        for data in &all {
            print(&document(data, Format::from(format))?)?;
        }
    }
    Ok(completeness(&found))
}

enum Shown {
    Text(String),
    Data(serde_json::Value),
}

async fn shown(server: &Server, object: &Object, args: &History) -> Result<Shown> {
    let all = revisions::read(server, object).await?;
    Ok(match args.output {
        Some(Written::Name) => Shown::Text(format!("{}\n", object.printed())),
        Some(_) => Shown::Data(revisions::machine_readable(object, &all)),
        None if args.diff => Shown::Text(revisions::differences(object, &all)),
        None if args.revision != 0 => Shown::Text(revisions::one(object, &all, args.revision)?),
        None => Shown::Text(revisions::list(object, &all)),
    })
}

async fn undo(connection: &Connection, args: &Undo) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    let mut found = args.objects.find(&server).await?;
    let change = Change::new("rolled back", &args.writing);
    for object in std::mem::take(&mut found.objects) {
        if let Err(error) = undone(&server, object, args, &change).await {
            found.errors.push(error);
        }
    }
    Ok(completeness(&found))
}

async fn undone(server: &Server, object: Object, args: &Undo, change: &Change<'_>) -> Result<()> {
    let all = revisions::read(server, &object).await.map_err(|error| {
        if error.to_string().starts_with("no history viewer") {
            anyhow!("no rollbacker has been implemented for {:?}", object.kind.full())
        } else {
            error
        }
    })?;
    let target: &Revision = revisions::target(&all, args.to_revision)?;
    let is_preview = args.writing.dry_run == DryRun::Client && args.writing.output.is_none();
    if is_preview && let Decision::Become(_) = revisions::back_to(&object, target) {
        let text = template::describe(&target.template);
        return print(&format!("{} will roll back to {text}", object.printed()));
    }
    change
        .one(server, object, |object| Ok(revisions::back_to(object, target)))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_are_read_as_kubectl_reads_them() {
        assert_eq!(parse_count("3"), Ok(IntOrPercent::Int(3)));
        assert_eq!(parse_count("20%"), Ok(IntOrPercent::from("20%")));
        for odd in ["", "%", "0", "-1", "a", "0%"] {
            assert!(parse_count(odd).is_err(), "{odd}");
        }
        assert_eq!(parse_patience("0"), Ok(Patience(None)));
        assert_eq!(parse_patience("0s"), Ok(Patience(None)));
        assert_eq!(parse_patience("2m"), Ok(Patience(Some(Duration::from_mins(2)))));
        assert!(parse_patience("x").is_err());
    }
}
