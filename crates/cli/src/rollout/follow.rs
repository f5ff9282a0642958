//! `kubectl kruise rollout status`: one line whenever something has changed, until the rollout is done.
//!
//! On a terminal a bar below the lines says how many Pods are as they should be, and how long the rest will take if it goes on as it did since this began. A rollout that
//! somebody paused is told once, as nothing will come of waiting for it.

use super::{
    Status as Args,
    status::{self, Status},
};
use crate::{
    args::Connection,
    explain::Completeness,
    follow::say,
    get::row::workload,
    kinds::POD,
    server::{Object, Refusal, Server, read_as},
    table::age,
};
use anyhow::{Result, anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::pod::Pod;
use kruise_core::{
    shared::{revision, selector},
    view::Tone,
};
use serde_json::Value;
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

const EVERY: Duration = Duration::from_millis(500);
/// Questions in a row that may stay without an answer.
const PATIENCE: u32 = 20;

pub(super) async fn run(connection: &Connection, args: &Args) -> Result<Completeness> {
    let server = Server::connect(connection).await?;
    let mut object = args.objects.find(&server).await?.only("rollout status")?;
    let begin = Instant::now();
    let mut bar = Bar::new(io::stdout().is_terminal());
    let (mut shown, mut warned, mut unanswered) = (Vec::new(), false, 0);
    loop {
        let status = match status::status(&object, args.revision) {
            Ok(status) => status,
            Err(error) => {
                bar.clear();
                return Err(error);
            }
        };
        let mut lines = vec![status.line.clone()];
        if args.detail {
            lines.extend(detail(&server, &object).await?);
        }
        if lines != shown {
            bar.clear();
            for line in &lines {
                say(line)?;
            }
            shown = lines;
        }
        if status.is_done || !args.watch {
            return Ok(Completeness::All);
        }
        if !warned && let Some(note) = standstill(&object) {
            bar.clear();
            eprintln!("{note}");
            warned = true;
        }
        bar.draw(&status, begin.elapsed());
        let left = args.timeout.0.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        if left == Some(Duration::ZERO) {
            bar.clear();
            bail!("timed out waiting for the condition");
        }
        tokio::time::sleep(EVERY.min(left.unwrap_or(EVERY))).await;
        let (kind, version) = (object.kind, Some(object.version));
        match server.get(kind, version, object.namespace(), object.name()).await {
            Ok(now) if now.uid() == object.uid() => {
                unanswered = 0;
                object = now;
            }
            Ok(_) | Err(Refusal::NotFound(_)) => {
                bar.clear();
                bail!("object has been deleted");
            }
            Err(Refusal::Other(error)) if unanswered >= PATIENCE => return Err(error),
            Err(Refusal::Other(_)) => unanswered += 1,
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

/// Why nothing will come of waiting, when that is so.
fn standstill(object: &Object) -> Option<String> {
    let view = workload(object.kind, &object.newest())?;
    (view.state.tone == Tone::Held).then_some(view.state.note)
}

/// The updated Pods by name, as far as they are ready and as far as they are not.
async fn detail(server: &Server, object: &Object) -> Result<[String; 2]> {
    let newest = object.newest();
    let labels: LabelSelector = read_as(&newest["spec"]["selector"]).unwrap_or_default();
    let labels = selector::text(&labels);
    if labels.is_empty() {
        bail!("--detail is not supported for {}", object.kind.full());
    }
    let pods = server.list(POD, None, Some(object.namespace()), Some(&labels)).await?;
    let pods = pods.unwrap_or_default();
    let status = &newest["status"];
    let update = status["updateRevision"].as_str().or(status["updatedRevision"].as_str());
    let (ready, unready) = updated(&pods, object.uid(), update.unwrap_or_default())?;
    Ok([
        format!("Updated ready pods: [{}]", ready.join(" ")),
        format!("Updated not ready pods: [{}]", unready.join(" ")),
    ])
}

/// The names of a workload's Pods at a revision: ready ones, and others.
fn updated(pods: &[Object], owner: &str, revision: &str) -> Result<(Vec<String>, Vec<String>)> {
    let (mut ready, mut unready) = (Vec::new(), Vec::new());
    for object in pods {
        let owners = object
            .value
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let is_owned = owners.into_iter().flatten().any(|known| known["uid"] == owner);
        let pod: Pod = read_as(&object.value).map_err(|error| anyhow!("Pod {}: {error:#}", object.name()))?;
        if !is_owned || !revision::is_at(&pod, revision) {
            continue;
        }
        let conditions = object.value.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|known| known["type"] == "Ready" && known["status"] == "True");
        let names = if is_ready { &mut ready } else { &mut unready };
        names.push(object.name().to_owned());
    }
    ready.sort();
    unready.sort();
    Ok((ready, unready))
}

/// The bar at the end of what is printed.
struct Bar {
    is_terminal: bool,
    is_drawn: bool,
    /// How many Pods were as they should be when this began.
    first: Option<i64>,
}

const WIDTH: i64 = 24;

impl Bar {
    fn new(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            is_drawn: false,
            first: None,
        }
    }

    fn draw(&mut self, status: &Status, elapsed: Duration) {
        if !self.is_terminal {
            return;
        }
        let first = *self.first.get_or_insert(status.ready);
        let text = bar(status, first, elapsed);
        write(&format!("\r\u{1b}[K{text}"));
        self.is_drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            write("\r\u{1b}[K");
        }
    }
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever does not see it any more has lost nothing.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `[######------] 3/6, about 40s left`.
fn bar(status: &Status, first: i64, elapsed: Duration) -> String {
    let Status { ready, wanted, .. } = *status;
    let full = if wanted > 0 { ready * WIDTH / wanted } else { WIDTH };
    let full = usize::try_from(full.clamp(0, WIDTH)).unwrap_or_default();
    let empty = usize::try_from(WIDTH).unwrap_or_default() - full;
    let left = match estimate(ready - first, wanted - ready, elapsed) {
        Some(seconds) => format!(", about {} left", age(seconds)),
        None => String::new(),
    };
    format!("[{}{}] {ready}/{wanted}{left}", "#".repeat(full), "-".repeat(empty))
}

/// Seconds until the rest is done, if it goes on as it did.
fn estimate(done: i64, left: i64, elapsed: Duration) -> Option<i64> {
    if done <= 0 || left <= 0 {
        return None;
    }
    let elapsed = i64::try_from(elapsed.as_millis()).ok()?;
    let seconds = elapsed.checked_mul(left)? / done / 1_000;
    Some(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_bar_says_how_far_it_is_and_how_long_it_will_take() {
        let status = |ready, wanted| Status {
            line: String::new(),
            is_done: false,
            ready,
            wanted,
        };
        let seconds = Duration::from_secs;
        for (ready, wanted, first, elapsed, text) in [
            (0, 6, 0, 5, "[------------------------] 0/6"),
            (3, 6, 1, 20, "[############------------] 3/6, about 30s left"),
            (6, 6, 1, 20, "[########################] 6/6"),
            (2, 6, 3, 20, "[########----------------] 2/6"),
            (0, 0, 0, 0, "[########################] 0/0"),
        ] {
            assert_eq!(bar(&status(ready, wanted), first, seconds(elapsed)), text);
        }
        assert_eq!(estimate(1, i64::MAX, seconds(9)), None);
        assert_eq!(estimate(9, 1, Duration::ZERO), Some(1));
    }

    #[test]
    fn updated_pods_are_those_of_the_workload_at_its_revision() {
        let pod = |name: &str, owner: &str, revision: &str, ready: &str| {
            let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"controller-revision-hash": revision},
                "ownerReferences": [{"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": owner, "controller": true}]},
                "spec": {"containers": []}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            Object {
                kind: POD,
                version: "v1",
                value,
            }
        };
        let pods = [
            pod("b", "u", "7d9", "True"),
            pod("a", "u", "web-7d9", "True"),
            pod("c", "u", "web-7d9", "False"),
            pod("old", "u", "web-5f4", "True"),
            pod("other", "x", "web-7d9", "True"),
        ];
        let (ready, unready) = updated(&pods, "u", "web-7d9").unwrap();
        assert_eq!(
            (ready, unready),
            (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()])
        );
    }
}
