//! `kubectl kruise expose`: a Service for what has Pods, with the same words as kubectl.
//!
//! - Ports are those of the containers when none is given, also of kinds of ours.
//! - A flag that old scripts may have and that means nothing any more (`--generator`, `--record`) is taken with its one meaning or not at all.

mod service;

use crate::{
    args::Connection,
    connect::{connect, describe_error},
    explain::Completeness,
    explain::print,
    text::visible_lines,
};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{ArgAction, ValueEnum};
use k8s_openapi::api::core::v1::Service;
use kruise_api::{
    names::group::V1ALPHA1,
    registry::{KINDS, KindInfo},
};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::time::timeout;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl kruise expose cloneset web --port 80 --target-port 8080\n  kubectl kruise expose cloneset/web --name front --type NodePort --dry-run client -o yaml"
)]
pub(crate) struct Expose {
    /// Kind and name: `cloneset web`, or `cloneset/web`
    #[arg(num_args = 1..=2, value_name = "KIND NAME", required_unless_present = "filename")]
    object: Vec<String>,
    /// A file with the object that is exposed
    #[arg(short, long, value_name = "FILE", conflicts_with = "object")]
    filename: Option<PathBuf>,
    /// Ports of the Service; those of the containers when not given
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    port: Vec<u16>,
    /// Port, by number or name, of the containers; that of the Service when not given
    #[arg(long, value_name = "PORT")]
    target_port: Option<String>,
    /// Protocol: TCP, UDP or SCTP; as the containers say, or TCP
    #[arg(long)]
    protocol: Option<String>,
    /// Name of the Service; that of the object when not given
    #[arg(long)]
    name: Option<String>,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`
    #[arg(long = "type", value_name = "TYPE")]
    service_type: Option<String>,
    /// Address that leads to the Service from outside; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    external_ip: Vec<String>,
    /// Address for a load balancer
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    load_balancer_ip: String,
    /// Labels of the Pods, as `key=value,…`; those that the object selects when not given
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = crate::args::parse_pair)]
    selector: Vec<(String, String)>,
    /// Labels of the Service, as `key=value,…`; those of the object when not given
    #[arg(short, long, value_name = "LABELS", value_delimiter = ',', value_parser = crate::args::parse_pair)]
    labels: Vec<(String, String)>,
    /// `None` or `ClientIP`
    #[arg(long, default_value = "")]
    session_affinity: String,
    /// Address inside the cluster; `None` for a Service without one
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    cluster_ip: String,
    /// JSON that is put over the Service
    #[arg(long, value_name = "JSON", default_value = "")]
    overrides: String,
    /// Only for old scripts: `service/v2`
    #[arg(long, hide = true, value_parser = ["service/v2"])]
    generator: Option<String>,
    /// Only show what would be made, or let the API server check it and not keep it
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
    /// Keep the whole Service in an annotation, for `kubectl apply`
    #[arg(long, action = ArgAction::SetTrue)]
    save_config: bool,
    /// Keep the command in the annotation `kubernetes.io/change-cause`
    #[arg(long, action = ArgAction::SetTrue, hide = true)]
    record: bool,
    /// Who makes the Service, in its managed fields
    #[arg(long, value_name = "NAME", default_value = "kubectl-expose")]
    field_manager: String,
    /// How to print it
    #[arg(short, long, value_enum)]
    output: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DryRun {
    None,
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Name,
    Json,
    Yaml,
}

pub(crate) async fn run(connection: &Connection, args: &Expose) -> Result<Completeness> {
    let (kind, name, named) = if let Some(file) = &args.filename {
        of_file(&std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?)?
    } else {
        let (kind, name) = words(&args.object)?;
        (kind, name, None)
    };
    let resource = known(&kind)?;
    let (client, default) = connect(connection).await?;
    let namespace = named.unwrap_or(default);
    let time = connection.request_timeout;
    let late = |_| anyhow!("the API server does not answer within {time:?}");
    let object = timeout(time, get(&client, &resource, &namespace, &name))
        .await
        .map_err(late)??;
    let mut service = service::of(&resource.kind, &object, args)?;
    if !args.overrides.is_empty() {
        let overrides: Value = serde_json::from_str(&args.overrides).context("--overrides is no JSON")?;
        kruise_api::merge_patch::merge(&mut service, &overrides);
    }
    service["metadata"]["namespace"] = json!(namespace);
    if args.record {
        let command: Vec<String> = std::env::args().collect();
        service["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!(command.join(" "));
    }
    if args.save_config {
        let text = format!("{service}\n");
        service["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(text);
    }
    let made = if args.dry_run == DryRun::Client {
        service
    } else {
        let params = PostParams {
            dry_run: args.dry_run == DryRun::Server,
            field_manager: Some(args.field_manager.clone()),
        };
        let service: Service = serde_json::from_value(service).context("the Service cannot be read")?;
        let services: Api<Service> = Api::namespaced(client, &namespace);
        let made = timeout(time, services.create(&params, &service)).await.map_err(late)?;
        serde_json::to_value(made.map_err(describe_error)?)?
    };
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let note = match args.dry_run {
        DryRun::None => "",
        DryRun::Client => " (dry run)",
        DryRun::Server => " (server dry run)",
    };
    print(&visible_lines(&match args.output {
        None => format!("service/{name} exposed{note}\n"),
        Some(Form::Name) => format!("service/{name}\n"),
        Some(Form::Json) => format!("{made:#}\n"),
        Some(Form::Yaml) => serde_saphyr::to_string(&made)?,
    }))?;
    Ok(Completeness::All)
}

fn words(words: &[String]) -> Result<(String, String)> {
    let (kind, name) = match words {
        [one] => one
            .split_once('/')
            .with_context(|| format!("say the name as well: {one} NAME"))?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => bail!("say a kind and a name"),
    };
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a name");
    }
    Ok((kind.to_owned(), name.to_owned()))
}

/// Kind, name and namespace of the one object of a file.
fn of_file(text: &str) -> Result<(String, String, Option<String>)> {
    let object: Value =
        serde_saphyr::from_str(text).context("the file is neither YAML nor JSON, or has several objects")?;
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = match field("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{}.{group}", field("/kind")),
        None => field("/kind").to_owned(),
    };
    let (kind, name) = words(&[kind, field("/metadata/name").to_owned()])?;
    let namespace = Some(field("/metadata/namespace").to_owned()).filter(|namespace| !namespace.is_empty());
    Ok((kind, name, namespace))
}

/// Words, and the kind of Kubernetes that they mean.
const NATIVE: [(&[&str], &str, &str); 6] = [
    (&["deployment", "deployments", "deploy"], "apps", "Deployment"),
    (&["replicaset", "replicasets", "rs"], "apps", "ReplicaSet"),
    (
        &["replicationcontroller", "replicationcontrollers", "rc"],
        "",
        "ReplicationController",
    ),
    (&["pod", "pods", "po"], "", "Pod"),
    (&["service", "services", "svc"], "", "Service"),
    (&["statefulset", "statefulsets", "sts"], "apps", "StatefulSet"),
];

/// How an object of this kind is read, if it can be exposed.
fn known(word: &str) -> Result<ApiResource> {
    let word = word.to_lowercase();
    let (plain, group) = word.split_once('.').unwrap_or((&word, ""));
    let is_meant = |of: &str| group.is_empty() || group == of;
    let native = NATIVE
        .iter()
        .find(|(words, of, _)| words.contains(&plain) && is_meant(of));
    if let Some((_, group, kind)) = native.filter(|(.., kind)| *kind != "StatefulSet") {
        return Ok(ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)));
    }
    let is_ours = |info: &&&KindInfo| {
        native.is_none()
            && is_meant(info.group)
            && (plain == info.plural || plain == info.singular() || info.short_names.contains(&plain))
    };
    let ours = KINDS.iter().find(is_ours);
    let exposed = ours.filter(|info| matches!(info.kind, "CloneSet" | "StatefulSet" | "DaemonSet"));
    let Some(info) = exposed else {
        let name = ours.map_or_else(|| word.clone(), |info| format!("{}.{}", info.kind, info.group));
        let name = native.map_or(name, |(_, group, kind)| format!("{kind}.{group}"));
        bail!("cannot expose a {name}")
    };
    // Every server has it: the older one where there are two.
    let version = info.versions.first().map_or(V1ALPHA1, |version| version.name);
    let kind = GroupVersionKind::gvk(info.group, version, info.kind);
    Ok(ApiResource::from_gvk_with_plural(&kind, info.plural))
}

async fn get(client: &Client, resource: &ApiResource, namespace: &str, name: &str) -> Result<Value> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    Ok(serde_json::to_value(api.get(name).await.map_err(describe_error)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_kind_then_it_can_be_exposed_or_not() {
        let plural = |word: &str| known(word).map(|resource| format!("{}/{}", resource.api_version, resource.plural));
        for (word, expected) in [
            ("clone", "apps.kruise.io/v1alpha1/clonesets"),
            ("CloneSet.apps.kruise.io", "apps.kruise.io/v1alpha1/clonesets"),
            ("asts", "apps.kruise.io/v1alpha1/statefulsets"),
            ("statefulset.apps.kruise.io", "apps.kruise.io/v1alpha1/statefulsets"),
            ("deploy", "apps/v1/deployments"),
            ("svc", "v1/services"),
        ] {
            assert_eq!(plural(word).unwrap(), expected, "{word}");
        }
        for (word, expected) in [
            ("statefulset", "cannot expose a StatefulSet.apps"),
            ("ud", "cannot expose a UnitedDeployment.apps.kruise.io"),
            ("secret", "cannot expose a secret"),
        ] {
            assert_eq!(plural(word).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn given_a_file_then_its_object_is_meant() {
        let file = "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: web, namespace: shop}";
        let expected = (
            "CloneSet.apps.kruise.io".to_owned(),
            "web".to_owned(),
            Some("shop".to_owned()),
        );
        assert_eq!(of_file(file).unwrap(), expected);
        assert!(of_file("kind: Pod").is_err());
    }
}
