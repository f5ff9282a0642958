use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// A server that gives these answers in turn, and notes what it was asked. The last answer is given again and again.
fn server(answers: Vec<(u16, String)>) -> (Api<ConfigMap>, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (notes, answers) = (asked.clone(), Arc::new(answers));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (notes, answers) = (notes.clone(), answers.clone());
        async move {
            let mut notes = notes.lock().unwrap();
            let (code, text) = answers[notes.len().min(answers.len() - 1)].clone();
            notes.push(request.uri().query().unwrap_or_default().to_owned());
            let answer = Response::builder().status(code).body(Body::from(text.into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    (Api::namespaced(Client::new(service, "shop"), "shop"), asked)
}

fn map(name: &str, version: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "resourceVersion": version } })
}

fn list(names: &[&str], version: &str, next: &str) -> (u16, String) {
    let items: Vec<Value> = names.iter().map(|name| map(name, "1")).collect();
    let metadata = json!({ "resourceVersion": version, "continue": next });
    let list = json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items });
    (200, list.to_string())
}

fn watch(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events
        .iter()
        .map(|(type_, object)| json!({ "type": type_, "object": object }).to_string() + "\n");
    (200, lines.collect())
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Reason", "message": "no" })
}

fn text_of(event: kube::Result<Event<ConfigMap>>) -> String {
    match event {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(object)) => format!("there {}", object.name_any()),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::Apply(object)) => format!("applied {}", object.name_any()),
        Ok(Event::Delete(object)) => format!("deleted {}", object.name_any()),
        Err(kube::Error::Api(status)) => format!("error {}", status.code),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn given_pages_and_changes_then_they_come_in_order_and_a_watch_goes_on_where_it_was() {
    let bookmark = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "9" } });
    let (api, asked) = server(vec![
        list(&["a"], "5", "more"),
        list(&["b"], "5", ""),
        watch(&[
            ("ADDED", map("c", "6")),
            ("MODIFIED", map("a", "7")),
            ("DELETED", map("b", "8")),
            ("BOOKMARK", bookmark),
        ]),
        watch(&[("ADDED", map("d", "10"))]),
    ]);
    let all: Vec<String> = events_of(api, "x=y").take(8).map(text_of).collect().await;
    assert_eq!(
        all,
        [
            "init",
            "there a",
            "there b",
            "done",
            "applied c",
            "applied a",
            "deleted b",
            "applied d"
        ]
    );
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.iter().all(|query| query.contains("fieldSelector=x%3Dy")),
        "{asked:?}"
    );
    assert!(asked[1].contains("continue=more"), "{asked:?}");
    for (query, version) in asked[2..].iter().zip(["5", "9"]) {
        assert!(query.contains(&format!("resourceVersion={version}")), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn given_what_goes_wrong_then_it_is_told_and_a_forgotten_version_is_listed_anew() {
    let (api, _) = server(vec![
        (503, failure(503).to_string()),
        list(&["a"], "5", ""),
        watch(&[("ERROR", failure(410))]),
        list(&["b"], "7", ""),
        (500, failure(500).to_string()),
        watch(&[("ADDED", map("c", "8"))]),
    ]);
    let all: Vec<String> = events(api).take(9).map(text_of).collect().await;
    assert_eq!(
        all,
        [
            "error 503",
            "init",
            "there a",
            "done",
            "error 410",
            "init",
            "there b",
            "done",
            "error 500"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn given_an_object_that_is_missing_comes_and_goes_then_its_versions_say_so() {
    let (api, _) = server(vec![
        list(&[], "5", ""),
        watch(&[("ADDED", map("a", "6")), ("DELETED", map("a", "7"))]),
        watch(&[]),
    ]);
    let seen: Vec<Option<String>> = versions(api, "a")
        .take(3)
        .map(|one| one.unwrap().map(|map| map.name_any()))
        .collect()
        .await;
    assert_eq!(seen, [None, Some("a".to_owned()), None]);
}
