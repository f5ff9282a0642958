//! One namespace per test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};

use crate::blocking::finish_before_drop;
use crate::builders::{self, Fixture as _};
use crate::eventually::eventually;

/// Starting a whole control plane at the same time can make the controller-manager slow.
const PATIENCE: Duration = Duration::from_mins(1);
/// Kubernetes allows 63 characters; a test needs room to derive names of its own.
const LONGEST_NAME: usize = 50;

/// A namespace that is deleted, with everything in it, when this is dropped.
#[must_use = "the namespace vanishes when this is dropped"]
pub struct FreshNamespace {
    client: Client,
    name: String,
}

/// Creates a namespace with a name that nobody else has and waits until Pods can be created in it.
pub async fn fresh(client: &Client, test_name: &str) -> anyhow::Result<FreshNamespace> {
    fresh_labelled(client, test_name, &[]).await
}

/// The same, with labels, by which webhooks may choose it.
pub async fn fresh_labelled(
    client: &Client,
    test_name: &str,
    labels: &[(&str, &str)],
) -> anyhow::Result<FreshNamespace> {
    let name = unique_name(test_name);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let plain = builders::namespace(&name);
    let labelled = labels
        .iter()
        .fold(plain, |object, (key, value)| object.label(key, value));
    let object = labelled.build();
    namespaces
        .create(&PostParams::default(), &object)
        .await
        .with_context(|| format!("creating namespace {name}"))?;
    let this = FreshNamespace {
        client: client.clone(),
        name,
    };
    let accounts: Api<ServiceAccount> = this.api();
    eventually(
        PATIENCE,
        "the controller-manager has made the namespace's default ServiceAccount",
        || async {
            accounts.get("default").await?;
            Ok(())
        },
    )
    .await;
    Ok(this)
}

/// A namespace that the program under test has made; from now on it is the test's, and goes with it.
pub fn adopted(client: &Client, name: &str) -> FreshNamespace {
    FreshNamespace {
        client: client.clone(),
        name: name.to_owned(),
    }
}

impl FreshNamespace {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Objects of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }
}

impl std::fmt::Debug for FreshNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FreshNamespace").field(&self.name).finish()
    }
}

impl Drop for FreshNamespace {
    fn drop(&mut self) {
        let (client, name) = (self.client.clone(), std::mem::take(&mut self.name));
        finish_before_drop(async move {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            if let Err(error) = namespaces.delete(&name, &DeleteParams::default()).await {
                tracing::warn!(name, %error, "a test's namespace was left behind");
            }
            // Kubelets that have gone already will not end their Pods, and without that the namespace would stay for minutes.
            let pods: Api<Pod> = Api::namespaced(client, &name);
            let now = DeleteParams::default().grace_period(0);
            if let Err(error) = pods.delete_collection(&now, &ListParams::default()).await {
                tracing::warn!(name, %error, "Pods of a test were left behind");
            }
        });
    }
}

/// `<test name>-<time><process><counter>`, within what Kubernetes allows for a name.
fn unique_name(test_name: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let suffix = format!(
        "{:x}-{:x}-{number:x}",
        Timestamp::now().as_millisecond(),
        std::process::id()
    );
    let readable: String = test_name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(LONGEST_NAME - suffix.len() - 1)
        .collect();
    match readable.trim_matches('-') {
        "" => format!("test-{suffix}"),
        readable => format!("{readable}-{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique_whatever_the_test_is_called() {
        for test in ["a_test::with paths", "", "___", "ünïcode", &"long".repeat(40)] {
            let (one, two) = (unique_name(test), unique_name(test));
            assert_ne!(one, two);
            assert!(one.len() <= LONGEST_NAME, "{one}");
            assert!(
                one.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{one}"
            );
            assert!(!one.starts_with('-') && !one.ends_with('-'), "{one}");
        }
    }
}
