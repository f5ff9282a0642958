//! `kubectl kruise sidecar plan`: what SidecarSets would put into a Pod, and why the others would not.
//!
//! - The Pod is one that is there, or comes from a file: a Pod, or anything with a Pod template, such as a Deployment or a CloneSet.
//! - Sets, namespace and revisions are read from the API server; no manager has to be asked, and nothing is written. Gates are taken to be as they are by default.
//! - Exit code 1 when a Pod would be refused.

mod subject;

use crate::{
    args::{Connection, Output, SidecarPlan},
    connect::{connect, describe_error},
    explain::Completeness,
    select::contents_of,
    text::{visible, visible_lines},
};
use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision as WholeRevision;
use k8s_openapi::api::core::v1::{Namespace as WholeNamespace, Pod};
use kruise_api::{
    kind::Kind as _, namespace::Namespace, read::from_value, revision::ControllerRevision,
    sidecarset::v1beta1::SidecarSet,
};
use kruise_core::sidecarset::{
    preview::{Brought, Known, Preview, preview},
    select,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{self, Write as _};
use subject::Subject;
use tokio::time::timeout;

pub(crate) async fn plan(connection: &Connection, args: &SidecarPlan) -> Result<Completeness> {
    let from_file = match &args.filename {
        Some(file) => Some(subject::of_text(&contents_of(file)?)?),
        None => None,
    };
    let (client, namespace) = connect(connection).await?;
    let time = connection.request_timeout;
    let previews = async {
        let subjects = match (from_file, &args.pod) {
            (Some(subjects), _) => subjects,
            (None, Some(pod)) => vec![live(&client, &namespace, pod).await?],
            (None, None) => bail!("name a Pod, or a file with -f"),
        };
        let cluster = Cluster::read(&client, &args.manager_namespace).await?;
        let mut all = Vec::new();
        for subject in subjects {
            let namespace = subject.namespace.clone().unwrap_or_else(|| namespace.clone());
            let preview = cluster.preview(&client, &namespace, &subject.pod).await?;
            all.push((namespace, subject, preview));
        }
        anyhow::Ok(all)
    };
    let all = timeout(time, previews)
        .await
        .map_err(|_| anyhow!("the API server does not answer within {time:?}"))??;
    let text = match args.output {
        Output::Json => {
            let list: Vec<Value> = all
                .iter()
                .map(|(namespace, of, preview)| json_of(namespace, of, preview))
                .collect();
            match <[Value; 1]>::try_from(list) {
                Ok([one]) => visible_lines(&format!("{one:#}\n")),
                Err(list) => visible_lines(&format!("{:#}\n", json!({ "items": list }))),
            }
        }
        Output::Text => {
            let texts: Vec<String> = all
                .iter()
                .map(|(namespace, of, preview)| text_of(namespace, of, preview))
                .collect();
            texts.join("\n")
        }
    };
    io::stdout()
        .write_all(text.as_bytes())
        .or_else(|error| match error.kind() {
            // Whoever reads has seen enough.
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
    let all_pass = all.iter().all(|(_, _, preview)| preview.outcome.is_ok());
    Ok(if all_pass {
        Completeness::All
    } else {
        Completeness::Failed
    })
}

async fn live(client: &Client, namespace: &str, text: &str) -> Result<Subject> {
    let name = match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => bail!("{kind} cannot be planned; name a Pod: pod/NAME"),
        None => text,
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = pods.get(name).await.map_err(describe_error)?;
    Ok(Subject {
        name: format!("Pod {name}"),
        namespace: Some(namespace.to_owned()),
        pod: serde_json::to_value(pod)?,
        is_live: true,
    })
}

/// What does not depend on the Pod.
struct Cluster {
    system: String,
    sets: Vec<SidecarSet>,
    revisions: Vec<ControllerRevision>,
}

impl Cluster {
    async fn read(client: &Client, system: &str) -> Result<Self> {
        let kind = GroupVersionKind::gvk(SidecarSet::GROUP, SidecarSet::VERSION, SidecarSet::KIND);
        let resource = ApiResource::from_gvk_with_plural(&kind, SidecarSet::PLURAL);
        let sets: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let sets = match sets.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("the cluster does not know SidecarSets in v1beta1: OpenKruise is not installed there, or too old")
            }
            Err(error) => return Err(describe_error(error)),
        };
        let sets: Vec<SidecarSet> = sets.iter().filter_map(typed).collect();
        // Most sets name no revision, and not everybody may read those of another namespace.
        let revisions = if sets.iter().any(|set| select::named_revision(set).is_some()) {
            let revisions: Api<WholeRevision> = Api::namespaced(client.clone(), system);
            let revisions = revisions.list(&ListParams::default()).await.map_err(describe_error)?;
            revisions.items.iter().filter_map(typed).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            system: system.to_owned(),
            sets,
            revisions,
        })
    }

    async fn preview(&self, client: &Client, namespace: &str, pod: &Value) -> Result<Preview> {
        let namespaces: Api<WholeNamespace> = Api::all(client.clone());
        let found: Option<Namespace> = match namespaces.get(namespace).await {
            Ok(found) => typed(&found),
            // One that is not there yet has no labels, and not everybody may read them.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => None,
            Err(error) => return Err(describe_error(error)),
        };
        Ok(preview(
            pod,
            Known {
                namespace: (namespace, found.as_ref()),
                system: &self.system,
                sets: &self.sets,
                revisions: &self.revisions,
                sort_containers: false,
                now: Timestamp::now(),
            },
        ))
    }
}

/// An object that cannot be read is passed over, as the manager does.
fn typed<K: DeserializeOwned>(object: &impl serde::Serialize) -> Option<K> {
    from_value(&serde_json::to_value(object).ok()?).ok()
}

fn text_of(namespace: &str, of: &Subject, preview: &Preview) -> String {
    let mut text = format!(
        "{} in namespace {}: {} of {} SidecarSets apply\n",
        visible(&of.name),
        visible(namespace),
        preview.applied.len(),
        preview.applied.len() + preview.passed_over.len()
    );
    if let Some(reason) = preview.not_asked {
        text.push_str(&format!("  {reason}\n"));
    }
    if of.is_live {
        let injected = of.injected();
        let list = if injected.is_empty() { "none" } else { injected };
        text.push_str(&format!(
            "  SidecarSets that were injected when it was created: {}\n",
            visible(list)
        ));
    }
    for brought in &preview.applied {
        text.push_str(&format!(
            "\n{}, {}\n",
            visible(&brought.set),
            visible(&brought.source.to_string())
        ));
        for (what, names) in lists(brought) {
            if !names.is_empty() {
                text.push_str(&format!("  {what}: {}\n", visible(&names.join(", "))));
            }
        }
    }
    if !preview.passed_over.is_empty() {
        text.push_str("\nNot injected:\n");
        for (set, reason) in &preview.passed_over {
            text.push_str(&format!("  - {}: {}\n", visible(set), visible(&reason.to_string())));
        }
    }
    match &preview.outcome {
        Err(error) => text.push_str(&format!(
            "\nThe Pod would be refused: {}\n",
            visible(&error.to_string())
        )),
        Ok(pod) => {
            text.push_str("\nThe Pod would have:\n");
            for (what, list) in [("init containers", "initContainers"), ("containers", "containers")] {
                let items = pod["spec"][list].as_array().into_iter().flatten();
                let names: Vec<&str> = items.filter_map(|item| item["name"].as_str()).collect();
                if !names.is_empty() {
                    text.push_str(&format!("  {what}: {}\n", visible(&names.join(", "))));
                }
            }
        }
    }
    text
}

fn lists(brought: &Brought) -> [(&'static str, &[String]); 7] {
    [
        ("init containers", &brought.init_containers),
        ("containers", &brought.containers),
        ("in the place of the Pod's own", &brought.replaced),
        ("left out, as a set before it has these names", &brought.left_out),
        ("volumes", &brought.volumes),
        ("pull secrets", &brought.pull_secrets),
        ("annotations", &brought.annotations),
    ]
}

fn json_of(namespace: &str, of: &Subject, preview: &Preview) -> Value {
    let applied = preview.applied.iter().map(|brought| {
        json!({
            "sidecarSet": brought.set, "source": brought.source.to_string(),
            "initContainers": brought.init_containers, "containers": brought.containers, "replaced": brought.replaced,
            "leftOut": brought.left_out,
            "volumes": brought.volumes, "imagePullSecrets": brought.pull_secrets, "annotations": brought.annotations,
        })
    });
    let passed_over = preview.passed_over.iter();
    let passed_over = passed_over.map(|(set, reason)| json!({"sidecarSet": set, "reason": reason.to_string()}));
    json!({
        "of": of.name, "namespace": namespace, "notAsked": preview.not_asked,
        "applied": applied.collect::<Vec<_>>(), "notApplied": passed_over.collect::<Vec<_>>(),
        "refused": preview.outcome.as_ref().err().map(ToString::to_string), "pod": preview.outcome.as_ref().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(more: &Value) -> SidecarSet {
        let mut set = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "log", "image": "i:1", "podInjectPolicy": "BeforeAppContainer"}]}});
        kruise_api::merge_patch::merge(&mut set, more);
        serde_json::from_value(set).unwrap()
    }

    fn told(sets: &[SidecarSet], of: &Subject) -> Preview {
        preview(
            &of.pod,
            Known {
                namespace: ("shop", None),
                system: "kruise-system",
                sets,
                revisions: &[],
                sort_containers: false,
                now: Timestamp::UNIX_EPOCH,
            },
        )
    }

    #[test]
    fn given_a_deployment_then_it_is_told_what_its_pods_would_get() {
        let of = subject::of_text(
            "kind: Deployment\nmetadata: {name: web}\nspec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: i}]}}}\n",
        );
        let of = of.unwrap().remove(0);
        let other = set(&json!({"metadata": {"name": "other"}, "spec": {"injectionStrategy": {"paused": true}}}));
        let preview = told(&[set(&json!({})), other], &of);
        assert_eq!(
            text_of("shop", &of, &preview),
            "Pods of Deployment web in namespace shop: 1 of 2 SidecarSets apply\n\n\
             log, as it is now\n  containers: log\n\n\
             Not injected:\n  - other: its injection is paused\n\n\
             The Pod would have:\n  containers: log, main\n"
        );
        let json = json_of("shop", &of, &preview);
        assert_eq!(json["applied"][0]["containers"], json!(["log"]));
        assert_eq!(json["notApplied"][0]["sidecarSet"], "other");
        assert_eq!(json["pod"]["spec"]["containers"][0]["env"][0]["name"], "IS_INJECTED");
    }

    #[test]
    fn given_a_refusal_and_control_characters_then_both_are_told_and_do_nothing() {
        let mut of = subject::of_text(
            "kind: Pod\nmetadata: {name: web, labels: {app: web}}\nspec: {containers: [{name: main}]}\n",
        );
        let of = &mut of.as_mut().unwrap()[0];
        of.is_live = true;
        of.pod["metadata"]["annotations"] = json!({"kruise.io/sidecarset-injected-list": "a\u{1b}[2J"});
        let named = json!({"spec": {"injectionStrategy": {"revision": {"customVersion": "v1"}}}});
        let text = text_of("shop", of, &told(&[set(&named)], of));
        assert!(text.contains("when it was created: a\\u001b[2J\n"), "{text}");
        assert!(
            text.contains("would be refused: SidecarSet log: there is no revision with the custom version v1"),
            "{text}"
        );
    }
}
