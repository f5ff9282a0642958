//! The check before `helm uninstall`, against API servers in every state.

use crate::support::{Running, kubeconfig};
use axum::{
    Router,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{collections::BTreeMap, net::SocketAddr};
use tokio::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_helm_hook");

/// What a server answers to a list of `<version>/<plural>`: names of objects, or a status code. Others are not served.
type Lists = BTreeMap<&'static str, Result<&'static [&'static str], u16>>;

async fn server(lists: Lists) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let version = r#"{"major":"1","minor":"34","gitVersion":"v1.34.4","gitCommit":"","gitTreeState":"",
                      "buildDate":"","goVersion":"","compiler":"","platform":""}"#;
    let router = Router::new()
        .route("/version", get(move || async move { version }))
        .fallback(move |uri: Uri| async move { list(&lists, &uri) });
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn list(lists: &Lists, uri: &Uri) -> Response {
    let wanted = uri.path().strip_prefix("/apis/apps.kruise.io/").unwrap_or_default();
    assert!(uri.query().unwrap_or_default().contains("limit=1"), "{uri}");
    match lists.get(wanted).copied().unwrap_or(Err(404)) {
        Ok(names) => {
            let items: Vec<_> = names
                .iter()
                .map(|name| serde_json::json!({"metadata": {"namespace": "shop", "name": name}}))
                .collect();
            let body = serde_json::json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                                          "metadata": {"resourceVersion": "1"}, "items": items});
            body.to_string().into_response()
        }
        Err(code) => {
            let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                                          "message": "no luck", "reason": "", "code": code});
            let status = StatusCode::from_u16(code).expect("a status code");
            (status, body.to_string()).into_response()
        }
    }
}

async fn ask(lists: Lists) -> (Option<i32>, String) {
    let place = tempfile::tempdir().expect("directory");
    let config = kubeconfig(place.path(), server(lists).await);
    let (status, said) = Running::start(PROGRAM, &[], &[("KUBECONFIG", &config)]).ends().await;
    (status.code(), said)
}

const NOTHING: [(&str, Result<&[&str], u16>); 3] = [
    ("v1beta1/clonesets", Ok(&[])),
    ("v1beta1/statefulsets", Ok(&[])),
    ("v1beta1/daemonsets", Ok(&[])),
];

#[tokio::test]
async fn given_no_workloads_then_the_installation_may_go() {
    let (code, said) = ask(NOTHING.into()).await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn given_one_workload_of_any_kind_then_it_must_stay() {
    for kind in ["clonesets", "statefulsets", "daemonsets"] {
        for version in ["v1beta1", "v1alpha1"] {
            let mut lists: Lists = NOTHING.into();
            lists.retain(|path, _| *path != format!("v1beta1/{kind}"));
            let path: &'static str = format!("{version}/{kind}").leak();
            lists.insert(path, Ok(&["web"]));
            let (code, said) = ask(lists).await;
            assert_eq!(code, Some(1), "{path}: {said}");
            assert!(
                said.contains(&format!("{kind}.apps.kruise.io (shop/web)")),
                "{path}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn given_a_kind_that_is_not_installed_then_it_has_no_objects() {
    assert_eq!(ask(Lists::new()).await.0, Some(0));
}

#[tokio::test]
async fn given_a_list_that_fails_then_it_must_stay() {
    for code in [403, 500, 503] {
        let mut lists: Lists = NOTHING.into();
        lists.insert("v1beta1/daemonsets", Err(code));
        let (exit, said) = ask(lists).await;
        assert_eq!(exit, Some(1), "{code}: {said}");
        assert!(
            said.contains("cannot see whether there are daemonsets.apps.kruise.io"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn given_no_api_server_then_it_must_stay() {
    let (status, said) = Running::start(PROGRAM, &[], &[]).ends().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the installation must stay"), "{said}");
}
