//! Where the replica that leads can be reached: the Lease names its Pod.

use crate::Settings;
use futures::future::BoxFuture;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kruise_admission::explain::Leader;
use kruise_runtime::lease::{Leadership, LeaseOptions, identity};
use kube::{Api, Client};
use std::net::SocketAddr;

/// Reads the Lease each time it is asked.
pub(crate) struct LeaseHolder {
    client: Client,
    leadership: Leadership,
    lease: Option<LeaseOptions>,
    /// Of the webhook server, on every replica.
    port: u16,
    name: String,
}

impl LeaseHolder {
    pub(crate) fn new(client: Client, leadership: Leadership, settings: &Settings) -> Self {
        let lease = settings.lease();
        let own = lease.as_ref().map_or_else(identity, |lease| lease.identity.clone());
        Self {
            client,
            leadership,
            port: settings.environment.webhook_port,
            name: host_of(&own).to_owned(),
            lease,
        }
    }

    async fn find(&self) -> Option<SocketAddr> {
        let LeaseOptions { namespace, name, .. } = self.lease.as_ref()?;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        let holder = leases.get_opt(name).await.ok()??.spec?.holder_identity?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let leader = pods.get_opt(host_of(&holder)).await.ok()??;
        let address = leader.status?.pod_ip?.parse().ok()?;
        Some(SocketAddr::new(address, self.port))
    }
}

impl Leader for LeaseHolder {
    fn leads(&self) -> bool {
        self.leadership.leads()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> BoxFuture<'_, Option<SocketAddr>> {
        Box::pin(self.find())
    }
}

/// The host name in the identity of a replica, which is the name of its Pod.
fn host_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(host, _)| host)
}
