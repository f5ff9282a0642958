//! How long reading takes: every kind from JSON, and a Pod as the cache keeps it. Run with `cargo bench -p kruise-api`.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kruise_api::pod::Pod;
use kruise_api::read;
use kruise_api::registry::KINDS;
use serde_json::{Value, json};

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!("{:<44}{:>9}{:>12}{:>10}", "reading", "bytes", "µs", "MB/s");
    for kind in KINDS {
        for version in kind.versions {
            let name = format!("{}.{}", kind.plural, version.name);
            let object = fixture(&format!("documents/{name}.json"));
            let json = object.to_string();
            report(&name, &json, || (version.read)(json.as_bytes()).is_ok());
        }
    }

    let small = fixture("pod.json");
    let mut large = small.clone();
    for list in ["/spec/containers", "/status/containerStatuses"] {
        repeat(
            large.pointer_mut(list).and_then(Value::as_array_mut).expect("a list"),
            20,
        );
    }
    for (what, pod) in [
        ("2 containers", small.to_string()),
        ("20 containers", large.to_string()),
    ] {
        report(&format!("Pod, {what}, projection"), &pod, || {
            read::from_slice::<Pod>(pod.as_bytes()).is_ok()
        });
        report(&format!("Pod, {what}, whole type"), &pod, || {
            serde_json::from_str::<k8s_openapi::api::core::v1::Pod>(&pod).is_ok()
        });
        report(&format!("Pod, {what}, JSON value"), &pod, || {
            serde_json::from_str::<Value>(&pod).is_ok()
        });
    }
    memory(&small);
}

fn fixture(name: &str) -> Value {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    serde_json::from_str(&fs::read_to_string(path).expect("a fixture")).expect("JSON")
}

/// Makes a list so long, with elements of different names.
fn repeat(list: &mut Vec<Value>, length: usize) {
    let first = list.first().cloned().expect("an element");
    list.truncate(0);
    for index in 0..length {
        let mut element = first.clone();
        element["name"] = json!(format!("container-{index}"));
        list.push(element);
    }
}

/// The best of several rounds, each long enough for the clock.
fn report(name: &str, json: &str, read: impl Fn() -> bool) {
    assert!(read(), "{name} cannot be read");
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(40) {
            for _ in 0..20 {
                black_box(read());
            }
            rounds += 20;
        }
        best = best.min(start.elapsed() / rounds);
    }
    let micros = best.as_secs_f64() * 1e6;
    println!(
        "{name:<44}{:>9}{micros:>12.2}{:>10.0}",
        json.len(),
        f64::from(u32::try_from(json.len()).unwrap_or(u32::MAX)) / micros
    );
}

/// Resident memory for each of many Pods, of which each fifty have a template in common.
fn memory(pod: &Value) {
    const PODS: usize = 20_000;
    let json = |index: usize| {
        let mut pod = pod.clone();
        let set = index / 50;
        pod["metadata"]["name"] = json!(format!("web-{index:05}"));
        pod["metadata"]["uid"] = json!(format!("5f0c3c0e-7b7c-4b58-8a62-{index:012}"));
        pod["metadata"]["ownerReferences"][1]["uid"] = json!(format!("3c2f0f55-0d65-4c9b-9f5a-{set:012}"));
        pod["metadata"]["labels"]["app"] = json!(format!("web-{set}"));
        pod["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"] = json!(format!("{index:05}"));
        pod["spec"]["nodeName"] = json!(format!("node-{}", index % 100));
        pod["spec"]["containers"][0]["env"][0]["value"] = json!(format!("value-{set}"));
        pod["status"]["containerStatuses"][0]["containerID"] = json!(format!("containerd://{index:064}"));
        pod.to_string()
    };
    let mut pods: Vec<std::sync::Arc<Pod>> = Vec::with_capacity(PODS);
    let before = resident();
    for index in 0..PODS {
        pods.push(std::sync::Arc::new(
            read::from_slice(json(index).as_bytes()).expect("a Pod"),
        ));
    }
    let bytes = resident().saturating_sub(before) / PODS;
    println!(
        "\nresident memory for each of {} cached Pods: {bytes} bytes",
        pods.len()
    );
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or_default() * 1024
}
