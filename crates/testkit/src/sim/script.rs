//! What a Pod's annotations ask of the simulated kubelet. The table of keys is in the head of [`super`].

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

pub(super) const PREFIX: &str = "sim.kruise.test/";

/// Longer waits are surely typing errors, and sums of them must stay far from the end of the calendar.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) start_delay: Duration,
    pub(super) phase: Option<StaticPhase>,
    every: Part,
    by_container: BTreeMap<String, Part>,
}

/// A phase the Pod is put into instead of living.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StaticPhase {
    pub(super) phase: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

/// The script of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) pull_delay: Duration,
    pub(super) pull_error: PullError,
    pub(super) ready_delay: Duration,
    pub(super) never_ready: bool,
    /// How many first runs end in a crash; `u32::MAX` for all.
    pub(super) crashes: u32,
    pub(super) crash_after: Duration,
    pub(super) exit_after: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) terminate_delay: Duration,
    pub(super) image_id: Option<String>,
    pub(super) restart: Option<String>,
    pub(super) resize: Resize,
    pub(super) resize_delay: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum PullError {
    #[default]
    None,
    Every,
    Images(Vec<String>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resize {
    #[default]
    Accept,
    Deferred,
    Infeasible,
}

impl PullError {
    pub(super) fn hits(&self, image: &str) -> bool {
        match self {
            PullError::None => false,
            PullError::Every => true,
            PullError::Images(images) => images.iter().any(|broken| broken == image),
        }
    }
}

impl Script {
    /// What every Pod does that says nothing else.
    pub(super) fn with_defaults(start_delay: Duration, every: Part) -> Self {
        Script {
            start_delay,
            every,
            ..Script::default()
        }
    }

    pub(super) fn part(&self, container: &str) -> &Part {
        self.by_container.get(container).unwrap_or(&self.every)
    }

    /// How long a Pod takes to end: as long as its slowest container.
    pub(super) fn terminate_delay(&self) -> Duration {
        let parts = self.by_container.values().map(|part| part.terminate_delay);
        parts.max().map_or(self.every.terminate_delay, |slowest| {
            slowest.max(self.every.terminate_delay)
        })
    }

    /// Reads annotations over `defaults`. An error names the annotation and says what would be right.
    pub(super) fn parse<'a>(
        defaults: &Script,
        annotations: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let mut script = defaults.clone();
        let mut later = Vec::new();
        for (name, value) in annotations {
            let Some(key) = name.strip_prefix(PREFIX) else { continue };
            let result = match key.split_once('.') {
                Some((key, container)) => {
                    later.push((name, key, container, value));
                    Ok(())
                }
                None if script.set_for_pod(key, value)? => Ok(()),
                None => script.every.set(key, value),
            };
            result.map_err(|why| format!("annotation {name}: {why}"))?;
        }
        // After the loop, so that a container's own script stands on all that was said for the whole Pod.
        for (name, key, container, value) in later {
            let part = script
                .by_container
                .entry(container.to_owned())
                .or_insert_with(|| script.every.clone());
            part.set(key, value)
                .map_err(|why| format!("annotation {name}: {why}"))?;
        }
        Ok(script)
    }

    fn set_for_pod(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "start-delay" => {
                self.start_delay = duration(value).map_err(|why| format!("annotation {PREFIX}{key}: {why}"))?;
            }
            "phase" => match value {
                "Pending" | "Failed" | "Succeeded" | "Unknown" => {
                    value.clone_into(&mut self.phase.get_or_insert_default().phase);
                }
                other => {
                    return Err(format!(
                        "annotation {PREFIX}{key}: {other:?} is not one of Pending, Failed, Succeeded, Unknown"
                    ));
                }
            },
            // Annotations come sorted, so `phase` was read before these two.
            "phase-reason" | "phase-message" => {
                let Some(phase) = &mut self.phase else {
                    return Err(format!("annotation {PREFIX}{key}: needs {PREFIX}phase"));
                };
                let field = if key == "phase-reason" {
                    &mut phase.reason
                } else {
                    &mut phase.message
                };
                *field = Some(value.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Part {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "pull-delay" => self.pull_delay = duration(value)?,
            "pull-error" => {
                self.pull_error = match value {
                    "true" => PullError::Every,
                    "false" | "" => PullError::None,
                    images => PullError::Images(images.split(',').map(|image| image.trim().to_owned()).collect()),
                }
            }
            "ready-delay" => self.ready_delay = duration(value)?,
            "never-ready" => self.never_ready = boolean(value)?,
            "crash" => {
                self.crashes = match value {
                    "true" => u32::MAX,
                    "false" => 0,
                    times => times
                        .parse()
                        .map_err(|_| format!("{times:?} is not true, false or a number of runs"))?,
                }
            }
            "crash-after" => self.crash_after = duration(value)?,
            "exit-after" => self.exit_after = Some(duration(value)?),
            "exit-code" => {
                let code: u8 = value
                    .parse()
                    .map_err(|_| format!("{value:?} is not a number from 0 to 255"))?;
                self.exit_code = i32::from(code);
            }
            "terminate-delay" => self.terminate_delay = duration(value)?,
            "image-id" => self.image_id = Some(value.to_owned()),
            "restart" => self.restart = Some(value.to_owned()),
            "resize" => {
                self.resize = match value {
                    "accept" => Resize::Accept,
                    "deferred" => Resize::Deferred,
                    "infeasible" => Resize::Infeasible,
                    other => return Err(format!("{other:?} is not one of accept, deferred, infeasible")),
                }
            }
            "resize-delay" => self.resize_delay = duration(value)?,
            _ => return Err("no such key; see the table in the documentation of the simulated kubelets".to_owned()),
        }
        Ok(())
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    value
        .parse()
        .map_err(|_| format!("{value:?} is neither true nor false"))
}

fn duration(value: &str) -> Result<Duration, String> {
    if value == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = value
        .parse::<SignedDuration>()
        .ok()
        .and_then(|signed| Duration::try_from(signed).ok());
    match parsed {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => Err(format!(
            "{value:?} is not a duration from 0 to 24h, such as 300ms, 2s or 1m30s"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(annotations: &[(&str, &str)]) -> Result<Script, String> {
        let named: BTreeMap<String, &str> = annotations.iter().map(|(k, v)| (format!("{PREFIX}{k}"), *v)).collect();
        Script::parse(&Script::default(), named.iter().map(|(k, v)| (k.as_str(), *v)))
    }

    #[test]
    fn a_container_key_stands_on_the_keys_of_the_whole_pod() {
        let script = parse(&[("ready-delay", "2s"), ("crash.main", "3"), ("never-ready.side", "true")]).unwrap();
        assert_eq!(script.part("main").crashes, 3);
        assert_eq!(script.part("main").ready_delay, Duration::from_secs(2));
        assert!(script.part("side").never_ready && !script.part("main").never_ready);
        assert_eq!(script.part("other").crashes, 0);
    }

    #[test]
    fn durations_read_like_those_of_kubernetes() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("300ms", 300),
            ("2s", 2_000),
            ("1m30s", 90_000),
            ("24h", 86_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn wrong_values_are_named_with_their_annotation() {
        let cases = [
            ("start-delay", "soon"),
            ("start-delay", "-1s"),
            ("ready-delay", "25h"),
            ("ready-delay.main", ""),
            ("never-ready", "maybe"),
            ("crash", "-1"),
            ("exit-code", "256"),
            ("resize", "perhaps"),
            ("phase", "Running"),
            ("phase-reason", "Evicted"),
            ("raedy-delay", "1s"),
            ("start-delay.main", "1s"),
        ];
        for (key, value) in cases {
            let error = parse(&[(key, value)]).unwrap_err();
            assert!(
                error.starts_with(&format!("annotation {PREFIX}{key}: ")),
                "{key}={value}: {error}"
            );
        }
    }

    #[test]
    fn a_pull_error_is_for_all_images_or_for_those_named() {
        assert!(
            parse(&[("pull-error", "true")])
                .unwrap()
                .part("c")
                .pull_error
                .hits("any:1")
        );
        let some = parse(&[("pull-error", "a:1, b:1")]).unwrap();
        assert!(some.part("c").pull_error.hits("b:1") && !some.part("c").pull_error.hits("b:2"));
    }
}
