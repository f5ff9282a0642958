//! What the manager would do with an object.
//!
//! The API server passes questions on to it, for everybody who may read the object: an Explanation is created in a dry run and comes back with its answer. Where
//! the API server does not know Explanations, or the whole plan is wanted with all that would be written, the manager is asked where it runs:
//!
//! 1. The Lease says which replica leads. Its name begins with the host name of the replica: that of its Pod, or of its node on the host network.
//! 2. The debug endpoint answers nobody but the Pod itself, so its port is forwarded, as `kubectl port-forward` does.

use crate::args::Explain;
use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kruise_api::{
    names::{group, label, object},
    registry::KindInfo,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectList, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

/// Most bytes of an answer. A plan for thousands of Pods has some megabytes.
const MOST: usize = 64 << 20;

/// An answer, and who gave it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) by: String,
    /// One plan per controller.
    pub(crate) plans: Value,
}

/// The object that is asked about.
pub(crate) struct Subject<'a> {
    pub(crate) info: &'static KindInfo,
    /// Empty for objects of the cluster.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// Asks for the plans of an object.
pub(crate) async fn ask(client: &Client, args: &Explain, about: &Subject<'_>, patience: Duration) -> Result<Answer> {
    if args.manager.is_none() && !args.whole {
        let asked = timeout(patience, question(client, about)).await;
        if let Some(answer) = asked.map_err(|_| anyhow!("the API server does not answer within {patience:?}"))?? {
            return Ok(answer);
        }
    }
    let namespace = if about.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", about.namespace)
    };
    let path = format!("/debug/plan/{}/{namespace}{}", about.info.singular(), about.name);
    if let Some(url) = &args.manager {
        let plans = timeout(patience, ask_url(url, &path)).await;
        let plans = plans.map_err(|_| anyhow!("no answer within {patience:?}")).flatten();
        let by = format!("the manager at {url}");
        return Ok(Answer {
            plans: plans.with_context(|| format!("{by} cannot be asked"))?,
            by,
        });
    }
    let pod = timeout(patience, leader(client, args))
        .await
        .map_err(|_| anyhow!("the API server does not answer within {patience:?}"))??;
    let by = format!("Pod {}/{pod}", args.manager_namespace);
    let plans = timeout(patience, forward(client, args, &pod, &path)).await;
    let plans = plans.map_err(|_| anyhow!("no answer within {patience:?}")).flatten();
    Ok(Answer {
        plans: plans.with_context(|| format!("{by}, port {} cannot be asked", args.manager_port))?,
        by,
    })
}

/// Asks through the API server; nothing when it does not know how.
async fn question(client: &Client, about: &Subject<'_>) -> Result<Option<Answer>> {
    let status = pose(client, about, None).await?;
    Ok(status.map(|(status, by)| Answer {
        by,
        plans: status["plans"].clone(),
    }))
}

/// Asks what an object would come to if it were as proposed, and who says so; nothing when nobody answers such questions.
pub(crate) async fn propose(client: &Client, about: &Subject<'_>, proposed: &Value) -> Result<Option<(Value, String)>> {
    let status = pose(client, about, Some(proposed)).await?;
    Ok(status.and_then(|(status, by)| Some((status.get("proposal")?.clone(), by))))
}

/// Poses a question in a dry run; nothing when the API server does not know questions, or when nobody answers.
async fn pose(client: &Client, about: &Subject<'_>, proposed: Option<&Value>) -> Result<Option<(Value, String)>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group::EXPLAIN, group::V1ALPHA1, "Explanation"));
    // Of objects of the cluster it can be asked in any namespace.
    let namespace = if about.namespace.is_empty() {
        client.default_namespace()
    } else {
        about.namespace
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut spec = json!({"group": about.info.group, "kind": about.info.kind, "name": about.name, "uid": about.uid});
    if let Some(proposed) = proposed {
        spec["proposed"] = proposed.clone();
    }
    let question = DynamicObject::new("question", &resource).data(json!({"spec": spec}));
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let status = match api.create(&params, &question).await {
        Ok(answered) => answered.data["status"].clone(),
        Err(kube::Error::Api(status)) if status.code == 404 && status.details.is_none() => return Ok(None),
        Err(kube::Error::Api(status)) => bail!("{}", status.message),
        Err(error) => return Err(error).context("the API server cannot be asked"),
    };
    // Whoever answered left it empty: no manager is behind the webhook.
    let Some(by) = status["answeredBy"].as_str() else {
        return Ok(None);
    };
    let note = if status["leader"] == true {
        ""
    } else {
        ", which does not lead and does not know what came of the last writes"
    };
    let by = format!("{by}{note}");
    Ok(Some((status, by)))
}

/// The Pod that leads.
async fn leader(client: &Client, args: &Explain) -> Result<String> {
    let namespace = &args.manager_namespace;
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(object::MANAGER_LEASE).await;
    let lease = lease.with_context(|| format!("cannot read Lease {namespace}/{}", object::MANAGER_LEASE))?;
    let Some(spec) = lease.and_then(|lease| lease.spec) else {
        bail!(
            "there is no Lease {namespace}/{}: no manager has run in this namespace; name its namespace with --manager-namespace",
            object::MANAGER_LEASE
        );
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let host = host_of(holder);
    if host.is_empty() {
        bail!(
            "nobody holds Lease {namespace}/{}: the manager is not running",
            object::MANAGER_LEASE
        );
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={}", label::CONTROL_PLANE, label::CONTROL_PLANE_MANAGER);
    let managers = pods.list(&ListParams::default().labels(&selector)).await;
    let managers = managers.with_context(|| format!("cannot list the Pods of the manager in {namespace}"))?;
    choose(&managers, host).ok_or_else(|| {
        let since = spec
            .renew_time
            .map(|renewed| format!(", last renewed {}", ago(renewed.0, Timestamp::now())));
        let since = since.unwrap_or_default();
        anyhow!(
            "Lease {namespace}/{} is held by {holder}{since}, but there is no such Pod",
            object::MANAGER_LEASE
        )
    })
}

/// The host name in the identity of a replica.
fn host_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(host, _)| host)
}

/// The Pod of this name, or the one on the node of this name.
fn choose(managers: &ObjectList<Pod>, host: &str) -> Option<String> {
    let running = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
    let named = managers.iter().find(|pod| pod.name_any() == host);
    let on_node = |pod: &&Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.as_deref() == Some(host))
    };
    let found = named.or_else(|| managers.iter().filter(running).find(on_node));
    found.map(kube::ResourceExt::name_any)
}

/// `12s ago`.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s ago"),
        120..7200 => format!("{}m ago", seconds / 60),
        _ => format!("{}h ago", seconds / 3600),
    }
}

async fn forward(client: &Client, args: &Explain, pod: &str, path: &str) -> Result<Value> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &args.manager_namespace);
    let mut forwarder = pods
        .portforward(pod, &[args.manager_port])
        .await
        .context("cannot forward a port to it")?;
    let refused = forwarder.take_error(args.manager_port);
    let stream = forwarder.take_stream(args.manager_port).context("no stream to it")?;
    let answer = get(stream, "localhost", path).await;
    forwarder.abort();
    match (answer, refused) {
        (Ok(plans), _) => Ok(plans),
        (Err(error), Some(refused)) => match timeout(Duration::from_millis(200), refused).await {
            Ok(Some(reason)) => Err(anyhow!("{}", reason.trim())),
            _ => Err(error),
        },
        (Err(error), None) => Err(error),
    }
}

async fn ask_url(url: &str, path: &str) -> Result<Value> {
    let uri: http::Uri = url.parse().with_context(|| format!("{url:?} is not an address"))?;
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("{url:?} is not an address that begins with http://");
    };
    let port = authority.port_u16().unwrap_or(80);
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await?;
    get(
        stream,
        authority.as_str(),
        &format!("{}{path}", uri.path().trim_end_matches('/')),
    )
    .await
}

/// One GET over a connection that is used for nothing else.
async fn get<S>(stream: S, host: &str, path: &str) -> Result<Value>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path)
        .header(http::header::HOST, host)
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await;
        let body = body.map_err(|error| anyhow!(error))?.to_bytes();
        if status.is_success() {
            read(&body)
        } else {
            bail!("{status}: {}", String::from_utf8_lossy(&body).trim())
        }
    }
    .await;
    connection.abort();
    answer
}

fn read(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).context("the answer is no JSON; is this the debug endpoint of a kruise-manager?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_lease_then_the_pod_is_found_by_its_name_or_its_node() {
        let pod = |name: &str, node: &str, gone: bool| {
            let gone = gone.then_some("2026-01-01T00:00:00Z");
            json!({"metadata": {"name": name, "deletionTimestamp": gone}, "spec": {"nodeName": node, "containers": []}})
        };
        let managers: ObjectList<Pod> = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": {},
            "items": [pod("m-old", "n1", true), pod("m-1", "n1", false), pod("m-2", "n2", false)],
        }))
        .unwrap();
        assert_eq!(host_of("m-1_0f3c"), "m-1");
        assert_eq!(host_of("a_b_0f3c"), "a_b");
        assert_eq!(host_of("m-1"), "m-1");
        assert_eq!(choose(&managers, "m-2").as_deref(), Some("m-2"));
        assert_eq!(choose(&managers, "n1").as_deref(), Some("m-1"));
        assert_eq!(choose(&managers, "n3"), None);
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let now = Timestamp::from_second(100_000).unwrap();
        for (seconds, expected) in [
            (0, "0s ago"),
            (119, "119s ago"),
            (121, "2m ago"),
            (7200, "2h ago"),
            (-5, "0s ago"),
        ] {
            let then = Timestamp::from_second(100_000 - seconds).unwrap();
            assert_eq!(ago(then, now), expected);
        }
    }
}
