//! `kubectl kruise scale` and `scaledown`: how many Pods there are, and which of them go.
//!
//! - `scale` writes the scale subresource, as kubectl does. `--current-replicas` and `--resource-version` are tested by the API server with the write.
//! - `scaledown` names Pods of a CloneSet that are to go, and lowers the replicas by their count in the same write. A Pod that is not there, not of the set or named already
//!   would only cost another Pod its life: that is refused.

use crate::{
    args::{Connection, parse_time},
    change::{Change, Decision, DryRun, Writing, set},
    complain,
    explain::{Completeness, print},
    follow::say,
    kinds::{DAEMON_SET, POD},
    print::{Format, items},
    select::{Objects, checked},
    server::{Object, Patch, Refusal, Server, read_as},
};
use anyhow::{Result, anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::cloneset;
use kruise_core::shared::selector;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// How often it is looked whether all Pods are there.
const EVERY: Duration = Duration::from_millis(500);
const PODS_TO_DELETE: [&str; 3] = ["spec", "scaleStrategy", "podsToDelete"];

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise scale cloneset/web --replicas 5\n  kubectl kruise scale asts/db --current-replicas 3 --replicas 5 --timeout 5m\n  \
                  kubectl kruise scale clone --all --replicas 0"
)]
pub(crate) struct Scale {
    #[command(flatten)]
    objects: Objects,
    /// How many Pods there are to be
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// Only when so many are wanted now
    #[arg(long, value_name = "NUMBER")]
    current_replicas: Option<i32>,
    /// Only when the object is at this resource version
    #[arg(long, value_name = "VERSION")]
    resource_version: Option<String>,
    /// Wait so long until there are as many
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise scaledown web --pods web-x7k2p,web-9qz4d\n  kubectl kruise scaledown cloneset/web --pods web-x7k2p"
)]
pub(crate) struct ScaleDown {
    /// The CloneSet: `web`, `cloneset web` or `cloneset/web`
    #[arg(value_name = "CLONESET", required = true, num_args = 1..=2)]
    object: Vec<String>,
    /// Pods that are to go
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pods: Vec<String>,
    #[command(flatten)]
    writing: Writing,
}

pub(crate) async fn scale(connection: &Connection, args: &Scale) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    let mut found = args.objects.find(&server).await?;
    if found.objects.is_empty() && found.errors.is_empty() {
        eprintln!("No resources found.");
    }
    for object in std::mem::take(&mut found.objects) {
        if let Err(error) = scaled(&server, &object, args).await {
            found.errors.push(error);
        }
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

async fn scaled(server: &Server, object: &Object, args: &Scale) -> Result<()> {
    let patch = patch(object, args)?;
    let suffix = match args.writing.dry_run {
        DryRun::Client => " (dry run)",
        DryRun::Server => " (server dry run)",
        DryRun::None => "",
    };
    let mut shown = object.clone();
    if args.writing.dry_run == DryRun::Client {
        set(&mut shown.value, &["spec", "replicas"], json!(args.replicas));
    } else {
        let is_dry = args.writing.dry_run == DryRun::Server;
        match server.patch(object, "/scale", &patch, is_dry).await {
            Ok(scale) => shown.value = scale,
            Err(Refusal::Changed) => bail!("{} was changed by somebody else at the same time", object.quoted()),
            Err(Refusal::Other(error)) => return Err(error),
            Err(refusal) => return Err(refusal.into()),
        }
    }
    if let (Some(timeout), DryRun::None) = (args.timeout, args.writing.dry_run) {
        wait(server, object, i64::from(args.replicas), timeout).await?;
    }
    match args.writing.output {
        Some(format) => print(&items(&[shown], Format::from(format))?),
        None => say(&format!("{} scaled{suffix}", object.printed())),
    }
}

/// What is sent to the scale subresource.
///
/// # Errors
/// When the kind cannot be scaled, or the object is not as it is expected to be.
fn patch(object: &Object, args: &Scale) -> Result<Patch> {
    let is_scalable = match object.kind.ours {
        Some(info) => info
            .versions
            .iter()
            .any(|version| version.name == object.version && version.scale.is_some()),
        None => object.kind != DAEMON_SET,
    };
    if !is_scalable {
        bail!("cannot scale a {}", object.kind.full());
    }
    let now = object
        .value
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    let version = object
        .value
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some(expected) = args.current_replicas
        && i64::from(expected) != now
    {
        bail!("Expected replicas to be {expected}, was {now}");
    }
    if let Some(expected) = &args.resource_version
        && expected != version
    {
        bail!("Expected resource version to be {expected}, was {version}");
    }
    let mut patch = json!({"spec": {"replicas": args.replicas}});
    if args.current_replicas.is_some() || args.resource_version.is_some() {
        patch["metadata"] = json!({ "resourceVersion": version });
    }
    Ok(Patch::Merge(patch))
}

async fn wait(server: &Server, object: &Object, replicas: i64, timeout: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        let (kind, version) = (object.kind, Some(object.version));
        let now = server.get(kind, version, object.namespace(), object.name()).await?;
        let number = |path: &str| now.value.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
        if is_seen && number("/status/replicas") == replicas {
            return Ok(());
        }
        if begin.elapsed() >= timeout {
            bail!("timed out waiting for {} to be scaled", object.quoted());
        }
        tokio::time::sleep(EVERY).await;
    }
}

pub(crate) async fn scale_down(connection: &Connection, args: &ScaleDown) -> Result<Completeness> {
    let words = match args.object.as_slice() {
        [name] if !name.contains('/') => vec![cloneset::KIND.singular(), name.clone()],
        words => words.to_vec(),
    };
    let server = Server::connect(connection).await?;
    let objects = Objects {
        words,
        ..Objects::default()
    };
    let object = objects.find(&server).await?.only("scaledown")?;
    if !object.kind.is(&cloneset::KIND) {
        bail!("currently only supported CloneSet selective pods deletion");
    }
    let labels: LabelSelector = read_as(&object.value["spec"]["selector"]).unwrap_or_default();
    let labels = selector::text(&labels);
    let pods = server.list(POD, None, Some(object.namespace()), Some(&labels)).await?;
    let pods = pods.unwrap_or_default();
    let named = names(&args.pods)?;
    let preface = format!("# {} delete pods [{}] successfully", object.name(), named.join(" "));
    let change = Change {
        preface: &preface,
        ..Change::new("selective pod deletion", &args.writing)
    };
    let name = object.name().to_owned();
    let changed = change.one(&server, object, |object| fewer(object, &named, &pods)).await;
    changed.map_err(|error| anyhow!("scaledown cloneset {name} failed, error is {error:#}"))?;
    Ok(Completeness::All)
}

/// The names of Pods, each once.
fn names(pods: &[String]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for name in pods.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let name = checked(name)?;
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        bail!("must specify one pod name");
    }
    Ok(names)
}

/// The CloneSet without these Pods.
///
/// # Errors
/// When one of them is not the set's to lose.
fn fewer(object: &Object, names: &[String], pods: &[Object]) -> Result<Decision> {
    let is_own = |pod: &&Object| {
        let owners = pod.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["uid"] == object.uid() && owner["controller"] == true)
    };
    let own: BTreeSet<&str> = pods.iter().filter(is_own).map(Object::name).collect();
    let listed = PODS_TO_DELETE.iter().fold(&object.value, |value, field| &value[*field]);
    let listed: Vec<Value> = listed.as_array().cloned().unwrap_or_default();
    for name in names {
        if !own.contains(name.as_str()) {
            bail!("Pod {name:?} is not a Pod of it");
        }
        if listed.iter().any(|known| known == name) {
            bail!("Pod {name:?} is to be deleted already");
        }
    }
    let replicas = object
        .value
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    let left = replicas - i64::try_from(names.len()).unwrap_or(i64::MAX);
    if left < 0 {
        bail!("{} Pods are named, and {replicas} are wanted", names.len());
    }
    let all: Vec<Value> = listed.into_iter().chain(names.iter().map(|name| json!(name))).collect();
    let mut after = object.value.clone();
    set(&mut after, &PODS_TO_DELETE, json!(all));
    set(&mut after, &["spec", "replicas"], json!(left));
    Ok(Decision::Become(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn object(word: &str) -> Object {
        let (kind, _) = kinds::resolve(word).unwrap();
        Object {
            kind,
            version: kind.versions()[0],
            value: json!({"metadata": {"name": "web", "uid": "u", "generation": 2, "resourceVersion": "7"}, "spec": {"replicas": 3}}),
        }
    }

    fn args() -> Scale {
        Scale {
            objects: Objects::default(),
            replicas: 5,
            current_replicas: None,
            resource_version: None,
            timeout: None,
            writing: Writing::default(),
        }
    }

    #[test]
    fn the_patch_is_small_and_tests_what_was_asked_for() {
        let plain = Patch::Merge(json!({"spec": {"replicas": 5}}));
        assert_eq!(patch(&object("clone"), &args()).unwrap(), plain);
        let expecting = Scale {
            current_replicas: Some(3),
            ..args()
        };
        let tested = Patch::Merge(json!({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 5}}));
        assert_eq!(patch(&object("ud"), &expecting).unwrap(), tested);
        for (word, args, error) in [
            ("ads", args(), "cannot scale a DaemonSet.apps.kruise.io"),
            ("ds", args(), "cannot scale a DaemonSet.apps"),
            ("sidecarset", args(), "cannot scale a SidecarSet.apps.kruise.io"),
            (
                "sts",
                Scale {
                    current_replicas: Some(2),
                    ..args()
                },
                "Expected replicas to be 2, was 3",
            ),
            (
                "clone",
                Scale {
                    resource_version: Some("6".into()),
                    ..args()
                },
                "Expected resource version to be 6, was 7",
            ),
        ] {
            assert_eq!(patch(&object(word), &args).unwrap_err().to_string(), error);
        }
    }

    fn pod(name: &str, owner: &str) -> Object {
        let owner = json!([{"uid": owner, "controller": true}]);
        Object {
            kind: POD,
            version: "v1",
            value: json!({"metadata": {"name": name, "ownerReferences": owner}}),
        }
    }

    #[test]
    fn pods_of_the_set_are_named_and_the_replicas_lowered_in_one_write() {
        let pods = [pod("a", "u"), pod("b", "u"), pod("c", "other")];
        let given = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let named = names(&given(&["a", " b", "a", ""])).unwrap();
        assert_eq!(named, ["a", "b"]);
        let Decision::Become(after) = fewer(&object("clone"), &named, &pods).unwrap() else {
            panic!("it is changed");
        };
        assert_eq!(
            after["spec"],
            json!({"replicas": 1, "scaleStrategy": {"podsToDelete": ["a", "b"]}})
        );
        let mut half = object("clone");
        half.value["spec"] = json!({"replicas": 0, "scaleStrategy": {"podsToDelete": ["b"]}});
        for (set, named, error) in [
            (&half, "a", "1 Pods are named, and 0 are wanted"),
            (&half, "b", "Pod \"b\" is to be deleted already"),
            (&half, "c", "Pod \"c\" is not a Pod of it"),
            (&half, "gone", "Pod \"gone\" is not a Pod of it"),
        ] {
            let told = fewer(set, &given(&[named]), &pods).unwrap_err();
            assert_eq!(told.to_string(), error);
        }
        assert_eq!(
            names(&given(&[" "])).unwrap_err().to_string(),
            "must specify one pod name"
        );
    }
}
