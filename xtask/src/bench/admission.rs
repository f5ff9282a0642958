//! **admission**: questions about Pods straight at the webhook, on more and more connections.

use std::time::Duration;

use anyhow::Result;

use super::arena::{Arena, Contender};
use super::load::{self, Latencies, Target};
use super::platform::milliseconds;
use super::reviews::Work;
use super::score::{Chapter, Curve, Goal, Plot};
use super::{Size, as_number, reviews};

const CONNECTIONS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The number of connections for which everything is told.
const USUAL: u32 = 8;
/// Requests per second of the steady load.
const STEADY: u32 = 5000;

pub(super) fn run(arena: &Arena, contender: &Contender, size: &Size, chapter: &mut Chapter) -> Result<()> {
    let manager = arena.manager(contender)?;
    for (pod, containers, matching) in [
        ("2 containers", 2, false),
        ("2 containers, rules match", 2, true),
        ("8 containers", 8, false),
        ("8 containers, rules match", 8, true),
    ] {
        let review = reviews::pod(containers, if matching { Work::GateAndOrder } else { Work::Nothing });
        let target = Target::new(manager.webhook_port, &manager.authority(), reviews::POD_PATH, &review)?;
        load::one_by_one(&target, 1000)?;
        let mut throughput = Vec::new();
        for connections in CONNECTIONS {
            let before = manager.cpu()?;
            let times = load::flat_out(&target, connections, size.admission)?;
            let cpu = manager.cpu()?.saturating_sub(before);
            let rate = as_number(times.count()) / size.admission.as_secs_f64();
            throughput.push((f64::from(connections), rate));
            if connections != USUAL {
                continue;
            }
            let mut note = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
                let measure = format!("{pod}, {connections} connections: {what}");
                chapter.note(contender.subject, measure, value, unit, goal.map(Goal::AtMost));
            };
            note("answers", rate, "/s", None);
            let each = cpu / u32::try_from(times.count())?;
            // The goal is for a plain Pod.
            note(
                "CPU each",
                milliseconds(each),
                "ms",
                (containers == 2 && !matching).then_some(0.03),
            );
            for (name, time) in percentiles(&times) {
                note(name, time, "ms", None);
            }
            if !matching {
                chapter.curves.push(distribution(contender, pod, &times));
            }
        }
        chapter.curves.push(Curve {
            plot: Plot::Throughput,
            subject: contender.subject,
            label: pod.to_owned(),
            points: throughput,
        });
        if containers == 2 && !matching {
            let times = load::steady(&target, USUAL, STEADY, size.admission * 5)?;
            for (name, time) in percentiles(&times) {
                let measure = format!("{pod}, steady {STEADY}/s: {name}");
                chapter.note(contender.subject, measure, time, "ms", None);
            }
        }
    }
    Ok(())
}

pub(super) fn percentiles(times: &Latencies) -> [(&'static str, f64); 3] {
    [("p50", 500), ("p99", 990), ("p999", 999)].map(|(name, share)| (name, milliseconds(times.per_mille(share))))
}

fn distribution(contender: &Contender, pod: &str, times: &Latencies) -> Curve {
    let shares = [100, 250, 500, 750, 900, 950, 990, 995, 999];
    let point = |share: usize| -> (f64, Duration) { (as_number(share) / 10.0, times.per_mille(share)) };
    Curve {
        plot: Plot::Latency,
        subject: contender.subject,
        label: pod.to_owned(),
        points: shares
            .into_iter()
            .map(point)
            .map(|(share, time)| (share, milliseconds(time)))
            .collect(),
    }
}
