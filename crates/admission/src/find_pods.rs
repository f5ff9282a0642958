//! Pods that a user names in an object, looked up in the cluster.
//!
//! A few are asked for one by one. Many are looked for in a list of the namespace's Pods, of which only the metadata is read: what one request of a
//! user costs the API server does not grow with the number of names in it.

use futures::{StreamExt as _, stream};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kruise_core::{admission::NamedPod, shared::validate::label::subdomain_faults};
use kruise_runtime::error::Error;
use kube::{Api, Client, api::ListParams};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::timeout;

/// How long one Pod may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long all pages of a list may take together.
const LIST_DEADLINE: Duration = Duration::from_secs(8);
/// Pods that are asked for at the same time.
const AT_ONCE: usize = 16;
/// More names than this are looked for in a list.
const ONE_BY_ONE: usize = 64;
/// Pods on a page of a list.
const PAGE: u32 = 500;

/// Returns what each name stands for.
pub(crate) async fn find(client: &Client, namespace: &str, names: BTreeSet<String>) -> BTreeMap<String, NamedPod> {
    // No Pod has a name with a fault, and it would make another address of ours.
    let (names, never): (BTreeSet<String>, BTreeSet<String>) =
        names.into_iter().partition(|name| subdomain_faults(name).is_empty());
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut found = if names.len() > ONE_BY_ONE {
        in_list(&api, &names).await
    } else {
        one_by_one(&api, names).await
    };
    found.extend(never.into_iter().map(|name| (name, NamedPod::Missing)));
    found
}

async fn one_by_one(api: &Api<Pod>, names: BTreeSet<String>) -> BTreeMap<String, NamedPod> {
    let found = stream::iter(names).map(async |name: String| {
        let pod = match timeout(DEADLINE, api.get_metadata_opt(&name)).await {
            Ok(Ok(Some(pod))) => named(pod.metadata),
            Ok(Ok(None)) => NamedPod::Missing,
            Ok(Err(error)) => NamedPod::Unknown(Error::from(error).to_string()),
            Err(_) => no_answer(),
        };
        (name, pod)
    });
    found.buffer_unordered(AT_ONCE).collect().await
}

async fn in_list(api: &Api<Pod>, names: &BTreeSet<String>) -> BTreeMap<String, NamedPod> {
    let mut found = BTreeMap::new();
    let read = timeout(LIST_DEADLINE, async {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list_metadata(&params).await?;
            for pod in page.items {
                if let Some(name) = pod.metadata.name.clone().filter(|name| names.contains(name)) {
                    found.insert(name, named(pod.metadata));
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) if found.len() < names.len() => params = params.continue_token(&token),
                _ => return Ok::<_, kube::Error>(()),
            }
        }
    });
    let rest = match read.await {
        Ok(Ok(())) => NamedPod::Missing,
        Ok(Err(error)) => NamedPod::Unknown(Error::from(error).to_string()),
        Err(_) => no_answer(),
    };
    for name in names {
        found.entry(name.clone()).or_insert_with(|| rest.clone());
    }
    found
}

fn named(pod: ObjectMeta) -> NamedPod {
    let owners = pod.owner_references.unwrap_or_default();
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    NamedPod::Found {
        controller: controller.map(|owner| owner.uid),
        is_being_deleted: pod.deletion_timestamp.is_some(),
    }
}

fn no_answer() -> NamedPod {
    NamedPod::Unknown("no answer from the API server".to_owned())
}
