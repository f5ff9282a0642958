//! The alerts and the board of the chart against what a manager tells, with a real Prometheus between them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    progress::Progress,
    prometheus::{self, Prometheus},
    shell,
};
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

use super::world::{PATIENCE, World, free_port};

/// What the first build of Prometheus may take.
const DEADLINE: Duration = Duration::from_mins(15);

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/kruise/files/monitoring");
    folder.join(name).canonicalize().unwrap()
}

/// The queries of the board, for a namespace.
fn queries(namespace: &str) -> Vec<String> {
    let board: Value = serde_json::from_str(&std::fs::read_to_string(file("board.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    collect(&board, &mut found);
    assert!(found.len() > 20, "{found:?}");
    found
        .iter()
        .map(|query| query.replace("$namespace", namespace))
        .collect()
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// The names of metrics in a query.
fn metrics(query: &str) -> BTreeSet<String> {
    let words = query.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'));
    let ours = ["kruise_", "controller_runtime_", "workqueue_"];
    let is_ours = |word: &&str| ours.iter().any(|prefix| word.starts_with(prefix));
    words.filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn given_the_alerts_then_promtool_finds_no_fault_and_they_fire_when_they_should() {
    let programs = prometheus::provide(&Progress::quiet()).unwrap();
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]] {
        let mut promtool = Command::new(programs.join("promtool"));
        let folder = file("alerts.yaml");
        shell::run(promtool.args(arguments).current_dir(folder.parent().unwrap())).unwrap();
    }
}

#[test]
fn given_a_running_manager_then_prometheus_answers_every_query_of_board_and_alerts() {
    run_test(DEADLINE, async {
        let programs = tokio::task::block_in_place(|| prometheus::provide(&Progress::quiet())).unwrap();
        let world = World::new("monitoring").await;
        let state = free_port();
        let replica = world.start_with(&Faults::new(1), &[&format!("--state-metrics-addr=127.0.0.1:{state}")]);
        world.publish(&replica).await;
        replica.leads().await;
        world.all_trust().await;
        let set: DynamicObject = serde_json::from_value(cloneset("web").replicas(2).json()).unwrap();
        let sets = world.objects("v1beta1", "CloneSet");
        sets.create(&PostParams::default(), &set).await.unwrap();

        let addresses = [replica.metrics, state].map(|port| format!("127.0.0.1:{port}"));
        let prometheus = Prometheus::start(&programs, &addresses, &file("alerts.yaml")).unwrap();
        let ask = |query: &str| {
            let found = tokio::task::block_in_place(|| prometheus.query(query));
            found.map_err(|error| NotYet::new(format!("{error:#}\n{}", prometheus.log())))
        };
        eventually(PATIENCE, "both pages are scraped", || async {
            let up = ask("sum(up)")?;
            let all = up[0]["value"][1] == "2";
            all.then_some(())
                .ok_or_else(|| NotYet::new(format!("{up}\n{}", prometheus.log())))
        })
        .await;
        eventually(PATIENCE, "the set is on the board", || async {
            let shown = ask("kruise_cloneset_spec_replicas{cloneset=\"web\"}")?;
            (shown[0]["value"][1] == "2")
                .then_some(())
                .ok_or_else(|| NotYet::new(shown.to_string()))
        })
        .await;
        // Every query is understood, and none asks for what nobody tells.
        let docs =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).unwrap();
        let alerts = std::fs::read_to_string(file("alerts.yaml")).unwrap();
        let mut unknown = BTreeSet::new();
        let queries = queries(world.work.name());
        for query in &queries {
            eventually(PATIENCE, query, || async { ask(query) }).await;
            unknown.extend(metrics(query));
        }
        unknown.extend(metrics(&alerts));
        unknown.retain(|name| !docs.contains(&format!("`{name}`")));
        assert!(unknown.is_empty(), "nobody tells {unknown:?}");
        let shown = eventually(PATIENCE, "numbers", || async { ask(&queries[0]) }).await;
        assert_eq!(shown[0]["value"][1], "1", "one CloneSet: {shown}");
        eventually(PATIENCE, "rules are evaluated", || async {
            let rules = tokio::task::block_in_place(|| prometheus.get("/api/v1/rules"));
            let text = rules.map_err(|error| NotYet::new(error.to_string()))?.to_string();
            let healthy = text.matches("\"health\":\"ok\"").count();
            let alerts = alerts.matches("- alert:").count();
            (healthy == alerts && !text.contains("\"health\":\"err\""))
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{healthy} of {alerts}: {text}")))
        })
        .await;
        world.stop(replica).await;
    });
}
