//! `kubectl kruise migrate deployment web`: the Pods of a Deployment become those of a CloneSet, or the other way round, without a moment below the wanted replicas.
//!
//! - The other workload is made with no Pods, and then replicas are moved in [steps](steps): it gets more, and when these are available the first one gets fewer.
//! - How far to go is kept in an annotation of the destination. A command that ended too early is just called again.
//! - The two never fight over Pods: the ReplicaSets of a Deployment own their Pods and select them by their own hash, which no Pod of a CloneSet has; a CloneSet takes none that has an owner.
//! - An autoscaler would undo every step, so while one scales the source nothing is begun. A source that is being rolled out is left to finish first.
//! - The source stays, with no replicas: deleting it is up to its owner, as are Services and budgets, which select Pods of both.
//!
//! `migrate CloneSet --from Deployment --src-name web --dst-name web` is how the plugin of OpenKruise says it, in two calls: with `--create`, and then without.

mod objects;
mod steps;

use crate::{
    args::Connection,
    connect::{connect, describe_error},
    explain::Completeness,
    text::visible,
};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::ArgAction;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kruise_api::names::{annotation::MIGRATION, group};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use objects::{Kind, Migration, copy};
use serde_json::{Value, json};
use std::time::Duration;
use steps::{Goal, Side, Step};
use tokio::time::{Instant, sleep, timeout};

/// Attempts to begin, when somebody else changes the destination at the same time.
const TRIES: u32 = 5;
/// How often it is looked how far it is.
const EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise migrate deployment web\n  kubectl kruise migrate cloneset web --to deployment --max-surge 2\n  kubectl kruise migrate CloneSet --from Deployment --src-name web --dst-name web --create\n  kubectl kruise migrate CloneSet --from Deployment --src-name web --dst-name web --replicas 3"
)]
pub(crate) struct Migrate {
    /// What is migrated: `deployment web`, or `deployment/web`. With --from, the kind to migrate to
    #[arg(required = true, num_args = 1..=2, value_name = "KIND NAME")]
    object: Vec<String>,
    /// The kind to migrate to: the other of Deployment and CloneSet when not given
    #[arg(long, value_name = "KIND", conflicts_with = "from")]
    to: Option<String>,
    /// Name of the workload to migrate to; the same name when not given
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    name: Option<String>,
    /// The kind to migrate from
    #[arg(long, value_name = "KIND", requires_all = ["src_name", "dst_name"])]
    from: Option<String>,
    /// Name of the workload to migrate from
    #[arg(long, value_name = "NAME", requires = "from")]
    src_name: Option<String>,
    /// Name of the workload to migrate to
    #[arg(long, value_name = "NAME", requires = "from")]
    dst_name: Option<String>,
    /// Only make the workload to migrate to, with no Pods
    #[arg(long, action = ArgAction::SetTrue, requires = "from")]
    create: bool,
    /// With --create: make it with as many Pods as the other has
    #[arg(long, action = ArgAction::SetTrue, requires = "create")]
    copy: bool,
    /// How many replicas are moved; -1 for all
    #[arg(long, value_name = "NUMBER", default_value_t = -1, allow_negative_numbers = true)]
    replicas: i32,
    /// How many Pods there may be more than wanted while it goes on
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    max_surge: i32,
    /// Give up after so many seconds; -1 for never. Called again, it goes on
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    timeout_seconds: i64,
}

/// Who gives Pods to whom.
#[derive(Debug, PartialEq)]
struct Pair {
    source: (Kind, String),
    destination: (Kind, String),
}

impl Migrate {
    fn pair(&self) -> Result<Pair> {
        let words: Vec<&str> = self.object.iter().flat_map(|word| word.split('/')).collect();
        if let (Some(from), Some(source), Some(destination)) = (&self.from, &self.src_name, &self.dst_name) {
            let [kind] = words.as_slice() else {
                bail!("with --from, say only the kind to migrate to: migrate CloneSet --from Deployment");
            };
            let (to, from) = (Kind::named(kind)?, Kind::named(from)?);
            if to == from {
                bail!("a {from} cannot be migrated to a {to}");
            }
            return Ok(Pair {
                source: (from, source.clone()),
                destination: (to, destination.clone()),
            });
        }
        let [kind, name] = words.as_slice() else {
            bail!("say what is migrated: migrate deployment NAME, or must specify --from, --src-name and --dst-name");
        };
        let from = Kind::named(kind)?;
        let to = self.to.as_deref().map_or(Ok(from.other()), Kind::named)?;
        if to == from {
            bail!("a {from} cannot be migrated to a {to}");
        }
        Ok(Pair {
            source: (from, (*name).to_owned()),
            destination: (to, self.name.clone().unwrap_or_else(|| (*name).to_owned())),
        })
    }
}

pub(crate) async fn run(connection: &Connection, args: &Migrate) -> Result<Completeness> {
    let pair = args.pair()?;
    if args.replicas == 0 || args.replicas < -1 {
        bail!("invalid replicas {}", args.replicas);
    }
    if args.max_surge < 1 {
        bail!(
            "invalid max surge {}: without one Pod more there would be one too few",
            args.max_surge
        );
    }
    let (client, namespace) = connect(connection).await?;
    let cluster = Cluster::new(client, namespace, connection.request_timeout).await?;
    if args.create {
        return cluster.create(&pair, args.copy).await;
    }
    let deadline = u64::try_from(args.timeout_seconds).ok();
    let deadline = deadline.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let goal = cluster.begin(&pair, args).await?;
    cluster.go(&pair, goal, deadline).await
}

/// A namespace, and how both kinds are reached in it.
struct Cluster {
    client: Client,
    namespace: String,
    patience: Duration,
    /// The version in which CloneSets are served.
    version: &'static str,
}

impl Cluster {
    async fn new(client: Client, namespace: String, patience: Duration) -> Result<Self> {
        for version in [group::APPS_V1BETA1, group::APPS_V1ALPHA1] {
            let listed = timeout(patience, client.list_api_group_resources(version)).await;
            match listed.map_err(|_| late(patience))? {
                Ok(list) if list.resources.iter().any(|resource| resource.name == "clonesets") => {
                    return Ok(Self {
                        client,
                        namespace,
                        patience,
                        version,
                    });
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(describe_error(error)),
            }
        }
        bail!("the cluster does not know CloneSets: OpenKruise is not installed there")
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource(self.version))
    }

    async fn within<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<kube::Result<T>> {
        timeout(self.patience, call).await.map_err(|_| late(self.patience))
    }

    async fn get(&self, (kind, name): &(Kind, String)) -> Result<Option<Value>> {
        let found = self
            .within(self.api(*kind).get_opt(name))
            .await?
            .map_err(describe_error)?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    async fn there(&self, which: &(Kind, String)) -> Result<Value> {
        let (kind, name) = which;
        let found = self.get(which).await?;
        found.with_context(|| format!("{} \"{name}\" not found in namespace {}", kind.plural(), self.namespace))
    }

    /// Changes an object if it is still as it was read. Returns whether it was.
    async fn patch(&self, (kind, name): &(Kind, String), read: &Value, mut patch: Value) -> Result<bool> {
        patch["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"].clone();
        let params = PatchParams {
            field_manager: Some("kubectl-kruise".to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(*kind);
        match self.within(api.patch(name, &params, &Patch::Merge(&patch))).await? {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(describe_error(error)),
        }
    }

    async fn post(&self, kind: Kind, object: &Value) -> Result<()> {
        let params = PostParams {
            field_manager: Some("kubectl-kruise".to_owned()),
            ..PostParams::default()
        };
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        self.within(self.api(kind).create(&params, &object))
            .await?
            .map_err(describe_error)?;
        Ok(())
    }

    /// Makes the destination, and moves nothing.
    async fn create(&self, pair: &Pair, with_pods: bool) -> Result<Completeness> {
        let (kind, name) = &pair.destination;
        if self.get(&pair.destination).await?.is_some() {
            bail!(
                "{} {}/{name} already exists",
                kind.to_string().to_lowercase(),
                self.namespace
            );
        }
        let source = self.there(&pair.source).await?;
        objects::check_claims(pair.source.0, &source)?;
        let mut object = copy(&source, *kind, name, self.version)?;
        if with_pods {
            object["spec"]["replicas"] = json!(objects::replicas(&source));
        }
        self.post(*kind, &object).await?;
        let (source_kind, source_name) = &pair.source;
        print_line(&format!(
            "Successfully created from {source_kind}/{source_name} to {kind}/{name}"
        ));
        Ok(Completeness::All)
    }

    /// Sees to the destination, and to how far it is to be gone: as far as was said when it was begun.
    async fn begin(&self, pair: &Pair, args: &Migrate) -> Result<Goal> {
        for _ in 0..TRIES {
            if let Some(goal) = self.try_begin(pair, args).await? {
                return Ok(goal);
            }
        }
        let destination = objects::full_name(&pair.destination);
        bail!("{destination} is changed by somebody else again and again: try it later")
    }

    /// Nothing when the destination was changed meanwhile.
    async fn try_begin(&self, pair: &Pair, args: &Migrate) -> Result<Option<Goal>> {
        let (source, found) = (self.there(&pair.source).await?, self.get(&pair.destination).await?);
        let (kind, name) = &pair.destination;
        if let Some(migration) = found.as_ref().and_then(Migration::of) {
            if migration.from != objects::full_name(&pair.source) {
                bail!(
                    "{kind} {name} is being migrated from {}: let that be finished first",
                    migration.from
                );
            }
            print_line(&format!("Going on with the migration from {}", migration.from));
            return Ok(Some(migration.goal(args.max_surge)));
        }
        objects::check_claims(pair.source.0, &source)?;
        objects::check_settled(pair.source.0, &source)?;
        self.check_autoscalers(&pair.source).await?;
        let there = objects::replicas(&source);
        let moved = if args.replicas == -1 { there } else { args.replicas };
        if moved > there {
            bail!(
                "{} has {there} replicas, {moved} cannot be moved",
                objects::full_name(&pair.source)
            );
        }
        let has_pods = found.as_ref().map_or(0, objects::replicas);
        let migration = Migration {
            from: objects::full_name(&pair.source),
            source: there - moved,
            destination: has_pods.saturating_add(moved),
            before: has_pods,
        };
        let mark = json!({"metadata": {"annotations": {(MIGRATION): migration.text()}}});
        match found {
            None if args.from.is_some() => {
                bail!(
                    "{} \"{name}\" not found in namespace {}: make it with --create",
                    kind.plural(),
                    self.namespace
                )
            }
            None => {
                let mut object = copy(&source, *kind, name, self.version)?;
                kruise_api::merge_patch::merge(&mut object, &mark);
                self.post(*kind, &object).await?;
                print_line(&format!("{kind} {name} created with no Pods"));
            }
            Some(found) => {
                let same = found["spec"]["selector"] == source["spec"]["selector"];
                if args.from.is_none() && has_pods > 0 {
                    bail!(
                        "{kind} {name} is there already and has {has_pods} replicas; to move more into it say: migrate {kind} --from {} --src-name {} --dst-name {name}",
                        pair.source.0,
                        pair.source.1
                    );
                }
                if !same {
                    bail!("{kind} {name} is there already and selects other Pods: delete it, or say another --name");
                }
                let mut change = mark;
                if has_pods == 0 && args.from.is_none() {
                    // What it has belongs to a time when it had Pods.
                    let template = objects::template(&source);
                    if found["spec"]["template"] != template {
                        print_line(&format!(
                            "{kind} {name} is there with no replicas: its template becomes that of {}",
                            migration.from
                        ));
                        change["spec"] = kruise_api::merge_patch::diff(
                            &json!({"template": found["spec"]["template"]}),
                            &json!({"template": template}),
                        )
                        .unwrap_or_default();
                    }
                }
                if !self.patch(&pair.destination, &found, change).await? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(migration.goal(args.max_surge)))
    }

    /// Refuses while an autoscaler would set the source's replicas back.
    async fn check_autoscalers(&self, (kind, name): &(Kind, String)) -> Result<()> {
        let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &self.namespace);
        // Who may not list them has to know by themselves.
        let Ok(scalers) = self.within(api.list(&ListParams::default())).await? else {
            return Ok(());
        };
        let scales = scalers.into_iter().find(|scaler| {
            let target = &scaler.spec.scale_target_ref;
            target.kind == kind.to_string() && target.name == *name
        });
        if let Some(scaler) = scales.and_then(|scaler| scaler.metadata.name) {
            bail!(
                "HorizontalPodAutoscaler {scaler} scales {kind} {name} and would undo every step: delete it first, and make one for the other workload afterwards"
            );
        }
        Ok(())
    }

    /// Moves replicas until all are moved.
    async fn go(&self, pair: &Pair, goal: Goal, deadline: Option<Instant>) -> Result<Completeness> {
        let mut shown = String::new();
        loop {
            let (source, destination) = (self.there(&pair.source).await?, self.there(&pair.destination).await?);
            let sides = (Side::of(&source), Side::of(&destination));
            let line = format!(
                "Migration progress: {} scale in {}/{}, {} scale out {}/{}, {} available",
                objects::full_name(&pair.source),
                sides.0.replicas,
                goal.source,
                objects::full_name(&pair.destination),
                sides.1.replicas,
                goal.destination,
                sides.1.available,
            );
            if line != shown {
                print_line(&line);
                shown = line;
            }
            match steps::next(&sides.0, &sides.1, &goal) {
                Step::Done => {
                    let unmark = json!({"metadata": {"annotations": {(MIGRATION): null}}});
                    if self.patch(&pair.destination, &destination, unmark).await? {
                        break;
                    }
                }
                Step::Raise(replicas) => {
                    let patch = json!({"spec": {"replicas": replicas}});
                    self.patch(&pair.destination, &destination, patch).await?;
                    continue;
                }
                Step::Lower(replicas) => {
                    let patch = json!({"spec": {"replicas": replicas}});
                    self.patch(&pair.source, &source, patch).await?;
                    continue;
                }
                Step::Wait => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                bail!("failed to migrate: timed out; call it again to go on");
            }
            sleep(EVERY).await;
        }
        print_line(&format!(
            "Successfully migrated {} replicas from {} to {}",
            goal.destination - goal.before,
            objects::full_name(&pair.source),
            objects::full_name(&pair.destination)
        ));
        if goal.source == 0 {
            let (kind, name) = &pair.source;
            print_line(&format!(
                "{kind} {name} has no replicas now; when nothing is missed: kubectl delete {} {name} -n {}",
                kind.plural(),
                self.namespace
            ));
        }
        Ok(Completeness::All)
    }
}

/// A line for the user, where the plugin of OpenKruise has it.
fn print_line(line: &str) {
    eprintln!("{}", visible(line));
}

fn late(patience: Duration) -> anyhow::Error {
    anyhow!("the API server does not answer within {patience:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        migrate: Migrate,
    }

    fn pair(words: &str) -> Result<String> {
        let words = Words::try_parse_from(["migrate"].into_iter().chain(words.split(' ')))?;
        let Pair { source, destination } = words.migrate.pair()?;
        Ok(format!("{}/{} {}/{}", source.0, source.1, destination.0, destination.1))
    }

    #[test]
    fn given_words_then_source_and_destination_follow() {
        for (words, expected) in [
            ("deployment web", "Deployment/web CloneSet/web"),
            ("deploy/web --name shop", "Deployment/web CloneSet/shop"),
            ("cloneset web --to deployment", "CloneSet/web Deployment/web"),
            ("clone/web", "CloneSet/web Deployment/web"),
            (
                "CloneSet --from Deployment --src-name a --dst-name b",
                "Deployment/a CloneSet/b",
            ),
            (
                "clone --from deployment --src-name a --dst-name b --replicas -1",
                "Deployment/a CloneSet/b",
            ),
        ] {
            assert_eq!(pair(words).unwrap(), expected, "{words}");
        }
        for (words, expected) in [
            ("deployment", "say what is migrated"),
            ("CloneSet --from Deployment", "--src-name"),
            (
                "CloneSet --from CloneSet --src-name a --dst-name b",
                "a CloneSet cannot be migrated to a CloneSet",
            ),
            (
                "CloneSet x --from Deployment --src-name a --dst-name b",
                "say only the kind",
            ),
            ("deployment web --to statefulset", "currently only supported"),
            ("deployment web --copy", "--create"),
        ] {
            let error = format!("{:#}", pair(words).unwrap_err());
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
