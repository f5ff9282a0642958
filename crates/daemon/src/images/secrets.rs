//! Pull Secrets, read one by one and remembered for some minutes.
//!
//! The daemon may read Secrets of one namespace only, and reads none that no image asks for. One that is not there, or may not be read,
//! is passed over: the pull may well go without it. After a pull has failed its Secrets are read anew, so that a password that was
//! changed is tried at the next attempt.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kruise_api::nodeimage::v1beta1::SecretReference;
use kruise_runtime::error::with_causes;
use kube::api::{Api, GetParams};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Longest time for one read.
const DEADLINE: Duration = Duration::from_secs(10);
/// A Secret is remembered for this long, or up to twice that: not all daemons ask at the same moment.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Namespace and name.
type Key = (String, String);
/// A Secret, and how long it is remembered.
type Known = (Instant, Arc<Secret>);

/// Reads Secrets.
pub(super) struct Secrets {
    client: kube::Client,
    known: Mutex<HashMap<Key, Known>>,
}

impl Secrets {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// Those of the references that can be read, in their order.
    pub(super) async fn of(&self, references: &[SecretReference]) -> Vec<Arc<Secret>> {
        let mut found = Vec::new();
        for reference in references {
            found.extend(self.one(reference).await);
        }
        found
    }

    async fn one(&self, reference: &SecretReference) -> Option<Arc<Secret>> {
        let key = (reference.namespace.clone(), reference.name.clone());
        {
            let mut known = self.known.lock();
            known.retain(|_, (until, _)| *until > Instant::now());
            if let Some((_, secret)) = known.get(&key) {
                return Some(secret.clone());
            }
        }
        let (namespace, name) = (&key.0, &key.1);
        if namespace.is_empty() || name.is_empty() {
            return None;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        // Whatever the server has in its cache is new enough.
        let any = GetParams {
            resource_version: Some("0".to_owned()),
        };
        let why = match tokio::time::timeout(DEADLINE, api.get_with(name, &any)).await {
            Ok(Ok(secret)) => {
                let secret = Arc::new(secret);
                let until = Instant::now() + REMEMBERED.mul_f64(1.0 + fastrand::f64());
                self.known.lock().insert(key, (until, secret.clone()));
                return Some(secret);
            }
            Ok(Err(error)) => with_causes(&error),
            Err(_) => format!("no answer within {DEADLINE:?}"),
        };
        tracing::warn!(namespace, name, "a pull Secret is passed over: {why}");
        None
    }

    /// Reads these anew when they are asked for again.
    pub(super) fn forget(&self, references: &[SecretReference]) {
        let mut known = self.known.lock();
        for reference in references {
            known.remove(&(reference.namespace.clone(), reference.name.clone()));
        }
    }
}
