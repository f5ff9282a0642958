//! Runs a scenario: each contender in turn, each time on a fresh control plane, as often as there are rounds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use kruise_testkit::progress::Progress;
use tokio::runtime::{Builder, Runtime};

use super::arena::{Arena, Contender};
use super::score::{Chapter, Subject};
use super::{Args, Scenario, Size};
use super::{
    admission, churn, daemon, daemonset, failover, idle, injection, jobs, look, machine, planning, platform,
    protection, rollout, scale, sidecarset, start, statefulset, topology,
};
use crate::product;

pub(super) fn run(scenario: Scenario, args: &Args, progress: &Progress) -> Result<Chapter> {
    let mut chapter = Chapter {
        commit: machine::commit(),
        begun: format!("{:.0}", Timestamp::now()),
        ..Chapter::new(&super::name(scenario))
    };
    match scenario {
        Scenario::Platform => platform::run(&mut chapter, progress)?,
        Scenario::Daemon => daemon::run(&mut chapter, progress)?,
        Scenario::Planning => planning::run(&mut chapter)?,
        Scenario::Decode | Scenario::Cloneset | Scenario::Report => bail!("`{}` goes by itself", super::name(scenario)),
        Scenario::Statefulset => {
            in_turn(scenario, args, &mut chapter, progress)?;
            statefulset::plan(&mut chapter)?;
        }
        Scenario::Sidecarset => {
            in_turn(scenario, args, &mut chapter, progress)?;
            sidecarset::plan(&mut chapter)?;
        }
        _ => in_turn(scenario, args, &mut chapter, progress)?,
    }
    Ok(chapter)
}

fn in_turn(scenario: Scenario, args: &Args, chapter: &mut Chapter, progress: &Progress) -> Result<()> {
    let contenders = contenders(args, progress)?;
    let size = Size::of(args);
    let runtime = runtime()?;
    let name = super::name(scenario);
    for round in 1..=args.rounds {
        if scenario == Scenario::Start {
            let arena = runtime.block_on(Arena::new(progress))?;
            runtime.block_on(start::run(&arena, &contenders, &size, chapter, progress))?;
            continue;
        }
        for contender in &contenders {
            if !takes_part(contender.subject, scenario) {
                continue;
            }
            progress.say(&format!("{name}: {}, round {round} …", contender.subject.name()));
            let arena = runtime.block_on(Arena::new(progress))?;
            let done = match scenario {
                Scenario::Scale => runtime.block_on(scale::run(&arena, contender, &size, chapter)),
                Scenario::Rollout => runtime.block_on(rollout::run(&arena, contender, &size, chapter)),
                Scenario::Idle => runtime.block_on(idle::run(&arena, contender, &size, chapter)),
                Scenario::Churn => runtime.block_on(churn::run(&arena, contender, &size, chapter)),
                Scenario::Statefulset => runtime.block_on(statefulset::run(&arena, contender, &size, chapter)),
                Scenario::Daemonset => runtime.block_on(daemonset::run(&arena, contender, &size, chapter)),
                Scenario::Topology => runtime.block_on(topology::run(&arena, contender, &size, chapter)),
                Scenario::Failover => runtime.block_on(failover::run(&arena, contender, &size, chapter)),
                Scenario::Protection => runtime.block_on(protection::run(&arena, contender, &size, chapter)),
                Scenario::Look => runtime.block_on(look::run(&arena, contender, &size, chapter)),
                Scenario::Jobs => runtime.block_on(jobs::run(&arena, contender, &size, chapter)),
                Scenario::Sidecarset => runtime.block_on(sidecarset::run(&arena, contender, &size, chapter)),
                _ => admission::run(&arena, contender, &size, chapter)
                    .and_then(|()| runtime.block_on(injection::run(&arena, contender, &size, chapter))),
            };
            done.with_context(|| format!("{} in round {round}", contender.subject.name()))?;
        }
    }
    Ok(())
}

/// The bare client only writes.
fn takes_part(subject: Subject, scenario: Scenario) -> bool {
    let only_writes = [
        Scenario::Scale,
        Scenario::Rollout,
        Scenario::Statefulset,
        Scenario::Daemonset,
        Scenario::Sidecarset,
        Scenario::Jobs,
        Scenario::Protection,
        Scenario::Topology,
    ];
    subject != Subject::Bare || only_writes.contains(&scenario)
}

pub(super) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Ours is always the first.
fn contenders(args: &Args, progress: &Progress) -> Result<Vec<Contender>> {
    let ours = ours(args, progress)?;
    let mut all = vec![Contender {
        subject: Subject::Ours,
        program: ours.clone(),
    }];
    if let Some(peer) = &args.peer {
        let program = std::path::absolute(peer)?;
        if !program.is_file() {
            bail!("there is no program {}", peer.display());
        }
        all.push(Contender {
            subject: Subject::Peer,
            program: program.clone(),
        });
        if args.peer_by_default {
            all.push(Contender {
                subject: Subject::PeerByDefault,
                program,
            });
        }
    }
    let beside_bare = [
        Scenario::Cloneset,
        Scenario::Jobs,
        Scenario::Statefulset,
        Scenario::Daemonset,
        Scenario::Sidecarset,
        Scenario::Topology,
        Scenario::Protection,
    ];
    let compares_by_itself = args.check || args.scenarios.iter().any(|scenario| beside_bare.contains(scenario));
    if args.bare || compares_by_itself {
        all.push(Contender {
            subject: Subject::Bare,
            program: ours,
        });
    }
    Ok(all)
}

/// A check takes the quicker build, which the tests with real nodes need anyway.
fn ours(args: &Args, progress: &Progress) -> Result<PathBuf> {
    if args.unoptimised {
        let own = std::env::current_exe()?;
        let folder = own.parent().map_or_else(PathBuf::new, Path::to_owned);
        return Ok(folder.join("kruise-manager"));
    }
    let profile = if args.check { product::LOCAL } else { "release" };
    let programs = progress.step("Building the programs", |step| product::compile(profile, step))?;
    programs.into_iter().next().context("no manager was built")
}
