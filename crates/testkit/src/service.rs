//! Where calls of a Service go when no Pod stands behind it but a process of this machine.
//!
//! Newer API servers look for the targets of a webhook in `EndpointSlice`s, older ones in `Endpoints`: both are written.

use anyhow::Result;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::namespace::FreshNamespace;

/// Leads calls of a Service to a port of this machine, beside where they go already.
pub async fn publish(namespace: &FreshNamespace, service: &str, name: &str, port: u16) -> Result<()> {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()?], "conditions": {"ready": true}}],
        "ports": [{"port": port}],
    });
    let slices: Api<EndpointSlice> = namespace.api();
    slices.patch(name, &params(), &Patch::Apply(&slice)).await?;
    mirror(namespace, service).await
}

/// Takes back what was published under this name.
pub async fn unpublish(namespace: &FreshNamespace, service: &str, name: &str) -> Result<()> {
    let slices: Api<EndpointSlice> = namespace.api();
    slices.delete(name, &DeleteParams::default()).await?;
    mirror(namespace, service).await
}

/// Writes all slices of a Service as its Endpoints.
async fn mirror(namespace: &FreshNamespace, service: &str) -> Result<()> {
    let slices: Api<EndpointSlice> = namespace.api();
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let subsets: Vec<Value> = slices
        .list(&of_service)
        .await?
        .iter()
        .filter_map(|slice| {
            let endpoints = slice.endpoints.iter().flatten();
            let addresses: Vec<Value> = endpoints
                .flat_map(|endpoint| &endpoint.addresses)
                .map(|ip| json!({"ip": ip}))
                .collect();
            let ports = slice.ports.iter().flatten().filter_map(|port| port.port);
            // Kubernetes itself writes a slice without addresses for a Service that selects no Pod.
            (!addresses.is_empty()).then(|| {
                json!({"addresses": addresses, "ports": ports.map(|port| json!({"port": port})).collect::<Vec<_>>()})
            })
        })
        .collect();
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        // Or the slices would be there twice.
        "metadata": {"name": service, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": subsets,
    });
    let api: Api<Endpoints> = namespace.api();
    api.patch(service, &params(), &Patch::Apply(&endpoints)).await?;
    Ok(())
}

fn params() -> PatchParams {
    PatchParams::apply("tests").force()
}

/// An address of this machine that is not the loopback; Kubernetes takes no other for an endpoint.
fn own_address() -> Result<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // Nothing is sent; the kernel only chooses the way.
    socket.connect("192.0.2.1:9")?;
    Ok(socket.local_addr()?.ip().to_string())
}
