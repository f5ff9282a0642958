//! Schedules: when a job is due.
//!
//! - Five fields, separated by blanks: minute, hour, day of month, month, day of week ([`field`]).
//! - A day has to match both its fields when one of them is a plain star; otherwise one of them is enough.
//! - `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` and `@hourly` stand for such fields. `@every 90m` counts from the last run, in whole
//!   seconds and at least one ([`duration`]).
//! - The wall clock of a time zone counts: that of a prefix `TZ=Europe/Berlin` or `CRON_TZ=…`, or the one that is given, or UTC. A time that the clocks leave out
//!   is left out; one that they show twice is due twice.
//! - What is not due within five years is never due, as 30 February.
//!
//! Zones come from a table that is part of the program, so that a schedule does not depend on the files of an image.

mod duration;
mod field;
#[cfg(test)]
mod tests;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use field::{Bounds, Field};

/// Years in which a time is looked for.
const YEARS: i16 = 5;

/// When a job is due.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// By the wall clock.
    Clock(Box<Clock>),
    /// So long after the last time.
    Every(SignedDuration),
}

/// Fields, and whose clock counts.
#[derive(Clone, Debug)]
pub struct Clock {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
    zone: TimeZone,
}

/// Whether a schedule names its own time zone; a plain look for the letters, as users know it.
pub fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

/// Returns the time zone of this name, in the spelling of the IANA database.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    let unknown = || format!("unknown time zone {name}");
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
    if zone.iana_name() == Some(name) {
        Ok(zone)
    } else {
        Err(unknown())
    }
}

impl Schedule {
    /// Reads a schedule. `zone` counts where the schedule names none.
    pub fn parse(text: &str, given: Option<&str>) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (text, zone) = match prefixed(text)? {
            Some((name, rest)) => {
                let zone = zone(name).map_err(|error| format!("provided bad location {name}: {error}"))?;
                (rest, zone)
            }
            // One that cannot be found was refused when it was given.
            None => (text, given.and_then(|name| zone(name).ok()).unwrap_or(TimeZone::UTC)),
        };
        if text.starts_with('@') {
            return described(text, zone);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = *fields else {
            return Err(format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            ));
        };
        Ok(Self::Clock(Box::new(Clock {
            minute: Field::parse(minute, Bounds::MINUTE)?,
            hour: Field::parse(hour, Bounds::HOUR)?,
            day: Field::parse(day, Bounds::DAY)?,
            month: Field::parse(month, Bounds::MONTH)?,
            weekday: Field::parse(weekday, Bounds::WEEKDAY)?,
            zone,
        })))
    }

    /// Returns the first time after this one at which a job is due; none when it never is.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(pause) => crate::shared::seconds::truncate(after).checked_add(*pause).ok(),
            Self::Clock(clock) => clock.next(after),
        }
    }

    /// Returns from where to go on when times up to `until` do not count. A pause goes on counting from where it began.
    pub fn skip(&self, since: Timestamp, until: Timestamp) -> Timestamp {
        match self {
            _ if until <= since => since,
            Self::Clock(_) => until,
            Self::Every(pause) => {
                let since = crate::shared::seconds::truncate(since);
                let over = until.duration_since(since).as_secs().rem_euclid(pause.as_secs().max(1));
                let begin = crate::shared::seconds::truncate(until);
                begin.checked_sub(SignedDuration::from_secs(over)).unwrap_or(since)
            }
        }
    }
}

/// The zone that a schedule begins with, and the rest of it.
fn prefixed(text: &str) -> Result<Option<(&str, &str)>, String> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok(None);
    };
    match rest.split_once(' ') {
        Some((zone, rest)) => Ok(Some((zone, rest.trim()))),
        None => Err("invalid cron schedule: there is nothing after the time zone".to_owned()),
    }
}

fn described(text: &str, zone: TimeZone) -> Result<Schedule, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(pause) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let pause = duration::parse(pause).ok_or_else(|| format!("failed to parse duration {text}"))?;
            let seconds = pause.as_secs().max(1);
            return Ok(Schedule::Every(SignedDuration::from_secs(seconds)));
        }
    };
    let Schedule::Clock(clock) = Schedule::parse(fields, None)? else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    Ok(Schedule::Clock(Box::new(Clock { zone, ..*clock })))
}

impl Clock {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut at = after.to_zoned(self.zone.clone());
        let last_year = at.year().saturating_add(YEARS);
        at = next_minute(&at)?;
        // Every turn goes on by a minute at least, and by a day or an hour where nothing in it is due.
        while at.year() <= last_year {
            at = if !self.is_day(&at) {
                next_day(&at)?
            } else if !self.hour.has(at.hour()) {
                next_hour(&at)?
            } else if !self.minute.has(at.minute()) {
                next_minute(&at)?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    fn is_day(&self, at: &Zoned) -> bool {
        let day = self.day.has(at.day());
        let weekday = self.weekday.has(at.weekday().since(Weekday::Sunday));
        let is_it = if self.day.is_star() || self.weekday.is_star() {
            day && weekday
        } else {
            day || weekday
        };
        self.month.has(at.month()) && is_it
    }
}

fn next_minute(at: &Zoned) -> Option<Zoned> {
    let rest = SignedDuration::from_secs(60 - i64::from(at.second())) - nanos(at);
    at.checked_add(rest).ok()
}

fn next_hour(at: &Zoned) -> Option<Zoned> {
    let minutes = SignedDuration::from_mins(60 - i64::from(at.minute()));
    let rest = minutes - SignedDuration::from_secs(i64::from(at.second())) - nanos(at);
    at.checked_add(rest).ok()
}

fn nanos(at: &Zoned) -> SignedDuration {
    SignedDuration::from_nanos(i64::from(at.subsec_nanosecond()))
}

/// The beginning of the next day. Where the clocks leave out midnight it is later.
fn next_day(at: &Zoned) -> Option<Zoned> {
    let day = at.date().checked_add(1.day()).ok()?;
    let begin = day.to_zoned(at.time_zone().clone()).ok()?;
    if begin > *at { Some(begin) } else { next_hour(at) }
}
