//! Before anything is adopted, the API server is asked whether the one that adopts is really there and stays: our view may be old, and what belongs to an
//! object that is gone goes with it.

use std::collections::HashMap;

use kruise_api::{kind::Kind, resource::Resource};
use kruise_runtime::{error::Error, resource::ObjectKey};
use kube::Client;
use parking_lot::Mutex;

use crate::platform::{Platform, live};

/// The objects of one kind that may adopt.
pub(crate) struct Adoption {
    client: Client,
    resource: &'static Resource,
    /// UIDs of those that the API server confirmed in the last round.
    confirmed: Mutex<HashMap<ObjectKey, String>>,
}

impl Adoption {
    /// Nobody is confirmed yet.
    pub(crate) fn by<K: Kind>(platform: &Platform) -> Self {
        Self {
            client: platform.client().clone(),
            resource: K::RESOURCE,
            confirmed: Mutex::default(),
        }
    }

    /// Asks for the object with this UID.
    pub(crate) async fn confirm(&self, key: &ObjectKey, uid: Option<String>) -> Result<(), Error> {
        self.forget(key);
        let live = live::read_metadata(&self.client, self.resource, &key.namespace, &key.name).await?;
        let live = live.filter(|live| live.deletion_timestamp.is_none());
        if let Some(uid) = live.and_then(|live| live.uid).filter(|live| Some(live) == uid.as_ref()) {
            self.confirmed.lock().insert(key.clone(), uid);
        }
        Ok(())
    }

    /// Whether this very object was confirmed in this round.
    pub(crate) fn is_confirmed(&self, key: &ObjectKey, uid: &str) -> bool {
        self.confirmed.lock().get(key).is_some_and(|confirmed| confirmed == uid)
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.confirmed.lock().remove(key);
    }
}
