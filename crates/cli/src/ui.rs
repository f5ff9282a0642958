//! `kubectl kruise ui`: the manager's live page on this machine.
//!
//! A port of this machine's loopback is forwarded to a replica of the manager, as `kubectl port-forward` does, each connection on its own: when a replica goes, the next connection
//! goes to another. What the page shows follows from the token that is given there, and not from the rights that forwarding takes.

use crate::{
    args::{Connection, Ui},
    connect::connect,
    explain::Completeness,
};
use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use kruise_api::names::{component::UI_PORT, label};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, ObjectList},
};
use std::{
    net::Ipv4Addr,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::timeout,
};

pub(crate) async fn run(connection: &Connection, args: &Ui) -> Result<Completeness> {
    let (client, _) = connect(connection).await?;
    let patience = connection.request_timeout;
    let (pod, _) = replica(&client, args, patience).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {} of this machine", args.port))?;
    let address = format!("http://{}/", listener.local_addr()?);
    println!("{address} is the live page of Pod {}/{pod}", args.manager_namespace);
    println!("Log in there with a token of this cluster, for example: kubectl create token NAME -n NAMESPACE");
    println!("Ctrl-C ends it.");
    if !args.no_open {
        open(&address);
    }
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept connections")?;
        let (client, args) = (client.clone(), args.clone());
        tokio::spawn(async move {
            if let Err(error) = forward(&client, &args, stream, patience).await {
                eprintln!("{error:#}");
            }
        });
    }
}

/// Leads one connection to a replica.
async fn forward(client: &Client, args: &Ui, mut stream: TcpStream, patience: Duration) -> Result<()> {
    let (pod, port) = replica(client, args, patience).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &args.manager_namespace);
    let mut forwarder = timeout(patience, pods.portforward(&pod, &[port]))
        .await
        .map_err(|_| anyhow!("the API server does not answer within {patience:?}"))?
        .with_context(|| format!("cannot forward a port to Pod {}/{pod}", args.manager_namespace))?;
    let mut there = forwarder.take_stream(port).context("no stream to it")?;
    // Either side may end it at any time; that is no error of ours.
    let _ = copy_bidirectional(&mut stream, &mut there).await;
    forwarder.abort();
    Ok(())
}

/// A ready Pod of the manager, and the port of its page.
async fn replica(client: &Client, args: &Ui, patience: Duration) -> Result<(String, u16)> {
    let namespace = &args.manager_namespace;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={}", label::CONTROL_PLANE, label::CONTROL_PLANE_MANAGER);
    let params = ListParams::default().labels(&selector);
    let managers = timeout(patience, pods.list(&params)).await;
    let managers = managers.map_err(|_| anyhow!("the API server does not answer within {patience:?}"))?;
    let managers = managers.with_context(|| format!("cannot list the Pods of the manager in {namespace}"))?;
    choose(&managers, namespace)
}

fn choose(managers: &ObjectList<Pod>, namespace: &str) -> Result<(String, u16)> {
    if managers.items.is_empty() {
        bail!("no manager runs in {namespace}; name its namespace with --manager-namespace");
    }
    let ready: Vec<&Pod> = managers.iter().filter(|pod| is_ready(pod)).collect();
    if ready.is_empty() {
        bail!("no Pod of the manager in {namespace} is ready");
    }
    let found = ready.iter().find_map(|pod| Some((pod.name_any(), port(pod)?)));
    found.ok_or_else(|| {
        anyhow!("the manager in {namespace} serves no live page: install its chart with --set ui.enabled=true")
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    pod.metadata.deletion_timestamp.is_none() && ready.any(|condition| condition.status == "True")
}

fn port(pod: &Pod) -> Option<u16> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let is_ui = |port: &&ContainerPort| port.name.as_deref() == Some(UI_PORT);
    u16::try_from(ports.find(is_ui)?.container_port).ok()
}

/// Opens the address in a browser where there is one; the address was printed as well.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let silent = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(silent);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn choice(pods: &[Value]) -> Result<(String, u16), String> {
        let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods});
        choose(&serde_json::from_value(list).unwrap(), "kruise-system").map_err(|error| error.to_string())
    }

    fn manager(name: &str, ready: &str, ports: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "manager", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn given_pods_of_the_manager_then_a_ready_one_with_a_page_is_taken() {
        let page = json!([{"name": "metrics", "containerPort": 8080}, {"name": "ui", "containerPort": 8082}]);
        let (one, other) = (manager("a", "False", &page), manager("b", "True", &page));
        assert_eq!(choice(&[one.clone(), other]), Ok(("b".to_owned(), 8082)));
        assert!(choice(&[one]).unwrap_err().contains("is ready"));
        assert!(choice(&[]).unwrap_err().contains("--manager-namespace"));
        let without = manager("c", "True", &json!([{"name": "metrics", "containerPort": 8080}]));
        assert!(choice(&[without]).unwrap_err().contains("ui.enabled=true"));
    }
}
