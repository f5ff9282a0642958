use super::super::fixtures::*;
use super::super::plan;
use serde_json::json;
use std::time::Instant;
#[test]
fn speed() {
    let n = 5000;
    let state = r#"{"revision":"web-new","updateTimestamp":"2026-11-15T08:41:47Z","lastContainerStatuses":{"main":{"imageID":"nginx@sha256:07921b9ce5add7faeea4c635d6657e5b9f19506bc85cedb24e0f4988ce9b8fb7"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-11-15T08:41:47Z","containers":["main"]}]}"#;
    let pods: Vec<_> = (0..n)
        .map(|i| {
            pod(&format!("web-p{i}"))
                .ready()
                .on(&format!("n{}", i % 500))
                .at("web-new")
                .annotation("apps.kruise.io/inplace-update-state", state)
        })
        .collect();
    let old: Vec<_> = (0..n)
        .map(|i| pod(&format!("web-p{i}")).ready().on(&format!("n{}", i % 500)))
        .collect();
    let upd: Vec<_> = (0..n)
        .map(|i| {
            let p = pod(&format!("web-p{i}"))
                .unready()
                .on("n")
                .at("web-new")
                .state("Updating")
                .annotation("apps.kruise.io/inplace-update-state", state);
            p
        })
        .collect();
    for (what, obs) in [
        ("steady", rolling(&json!({"replicas": n}), &pods)),
        ("create", rolling(&json!({"replicas": n}), &[])),
        ("update 1", rolling(&json!({"replicas": n}), &old)),
        (
            "update 20%",
            rolling(
                &json!({"replicas": n, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "20%"}}}),
                &old,
            ),
        ),
        (
            "recreate 20%",
            rolling(
                &json!({"replicas": n, "updateStrategy": {"rollingUpdate": {"podUpdatePolicy":"ReCreate","maxUnavailable": "20%"}}}),
                &old,
            ),
        ),
        ("finishing all", rolling(&json!({"replicas": n}), &upd)),
        ("scale in half", rolling(&json!({"replicas": n/2}), &pods)),
    ] {
        let e = env();
        let p = plan(&obs, &e);
        let t = Instant::now();
        for _ in 0..5 {
            std::hint::black_box(plan(&obs, &e));
        }
        println!("{what}: {:?} writes {}", t.elapsed() / 5, p.writes().count());
    }
}
