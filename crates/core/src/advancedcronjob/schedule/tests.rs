//! Schedules, and when they are due.

mod oracle;

use proptest::prelude::*;

use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn given_schedules_then_the_next_time_is_the_first_that_matches() {
    for (text, after, next) in [
        ("* * * * *", "2026-05-01T10:00:00Z", "2026-05-01T10:01:00Z"),
        ("* * * * *", "2026-05-01T10:00:59.9Z", "2026-05-01T10:01:00Z"),
        ("*/15 * * * *", "2026-05-01T10:46:00Z", "2026-05-01T11:00:00Z"),
        ("5/15 * * * *", "2026-05-01T10:05:00Z", "2026-05-01T10:20:00Z"),
        ("5/15 * * * *", "2026-05-01T10:50:00Z", "2026-05-01T11:05:00Z"),
        ("0 9 * * *", "2026-05-01T09:00:00Z", "2026-05-02T09:00:00Z"),
        ("0 0 1 1 *", "2026-05-01T09:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 29 2 *", "2026-05-01T09:00:00Z", "2028-02-29T00:00:00Z"),
        // A plain star: both have to match. Otherwise one is enough: 13th or Friday.
        ("0 0 * * fri", "2026-05-01T00:00:00Z", "2026-05-08T00:00:00Z"),
        ("0 0 13 * FRI", "2026-05-08T00:00:00Z", "2026-05-13T00:00:00Z"),
        ("0 0 13 * FRI", "2026-05-13T00:00:00Z", "2026-05-15T00:00:00Z"),
        ("0 0 */1 * fri", "2026-05-01T00:00:00Z", "2026-05-08T00:00:00Z"),
        ("0 0 ? * 0", "2026-05-01T00:00:00Z", "2026-05-03T00:00:00Z"),
        ("0 0 */2 * fri", "2026-05-01T00:00:00Z", "2026-05-03T00:00:00Z"),
        ("0 0 * jan-mar MON,fri", "2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@yearly", "2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"),
        ("@weekly", "2026-05-01T00:00:00Z", "2026-05-03T00:00:00Z"),
        ("@midnight", "2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"),
        ("@hourly", "2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z"),
        ("@every 90m", "2026-05-01T00:00:07.5Z", "2026-05-01T01:30:07Z"),
        ("@every 1.5h", "2026-05-01T00:00:00Z", "2026-05-01T01:30:00Z"),
        ("@every 500ms", "2026-05-01T00:00:00Z", "2026-05-01T00:00:01Z"),
        ("@every 2s900ms", "2026-05-01T00:00:00Z", "2026-05-01T00:00:02Z"),
        ("@every -5m", "2026-05-01T00:00:00Z", "2026-05-01T00:00:01Z"),
        (
            "TZ=Asia/Shanghai 0 9 * * *",
            "2026-05-01T00:00:00Z",
            "2026-05-01T01:00:00Z",
        ),
        (
            "CRON_TZ=Asia/Tokyo 0 9 * * *",
            "2026-05-01T00:00:00Z",
            "2026-05-02T00:00:00Z",
        ),
        ("TZ=Asia/Tokyo @daily", "2026-05-01T00:00:00Z", "2026-05-01T15:00:00Z"),
    ] {
        assert_eq!(
            schedule(text).next(time(after)),
            Some(time(next)),
            "{text} after {after}"
        );
    }
}

#[test]
fn given_clocks_that_jump_then_times_are_left_out_or_come_twice() {
    // In Berlin 02:00 to 03:00 is missing on 29 March 2026, and comes twice on 25 October.
    let due = |text: &str, after: &str, count: usize| -> Vec<String> {
        let schedule = schedule(&format!("TZ=Europe/Berlin {text}"));
        let times = std::iter::successors(schedule.next(time(after)), |last| schedule.next(*last));
        times.take(count).map(|time| time.to_string()).collect()
    };
    assert_eq!(
        due("30 2 * * *", "2026-03-28T00:00:00Z", 2),
        ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        due("30 2 * * *", "2026-10-24T12:00:00Z", 3),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        due("0 * * * *", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T03:00:00Z"]
    );
    // In Santiago midnight itself is left out on 6 September 2026.
    let santiago = schedule("TZ=America/Santiago 30 0 * * *");
    assert_eq!(
        santiago.next(time("2026-09-05T05:00:00Z")),
        Some(time("2026-09-07T03:30:00Z"))
    );
    let santiago = schedule("TZ=America/Santiago 0 12 * * *");
    assert_eq!(
        santiago.next(time("2026-09-05T20:00:00Z")),
        Some(time("2026-09-06T15:00:00Z"))
    );
    // Lord Howe moves by half an hour.
    let howe = schedule("TZ=Australia/Lord_Howe 15 2 * * *");
    assert_eq!(
        howe.next(time("2026-10-03T00:00:00Z")),
        Some(time("2026-10-04T15:15:00Z"))
    );
}

#[test]
fn given_a_zone_beside_the_schedule_then_it_counts() {
    let shanghai = Schedule::parse("0 9 * * *", Some("Asia/Shanghai")).unwrap();
    assert_eq!(
        shanghai.next(time("2026-05-01T00:00:00Z")),
        Some(time("2026-05-01T01:00:00Z"))
    );
    for (name, known) in [
        ("UTC", true),
        ("Etc/UTC", true),
        ("EST", true),
        ("Asia/Shanghai", true),
        ("asia/shanghai", false),
        ("CST", false),
        ("+08:00", false),
        ("../etc/passwd", false),
        ("local", false),
    ] {
        assert_eq!(zone(name).is_ok(), known, "{name}");
    }
}

#[test]
fn given_what_is_no_schedule_then_it_is_said_why() {
    for (text, why) in [
        ("", "empty spec string"),
        ("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
        ("whenever", "expected exactly 5 fields, found 1: [whenever]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("0 24 * * *", "end of range (24) above maximum (23): 24"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("0 0 1 13 *", "end of range (13) above maximum (12): 13"),
        ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("a * * * *", "\"a\" is no number"),
        ("-1 * * * *", "\"\" is no number"),
        ("1-2-3 * * * *", "\"2-3\" is no number"),
        ("*/1/2 * * * *", "\"1/2\" is no number"),
        (", * * * *", "\",\" names nothing"),
        ("@Hourly", "unrecognized descriptor: @Hourly"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every soon", "failed to parse duration @every soon"),
        (
            "TZ=Mars/Base 0 0 * * *",
            "provided bad location Mars/Base: unknown time zone Mars/Base",
        ),
        ("TZ=UTC", "invalid cron schedule: there is nothing after the time zone"),
    ] {
        assert_eq!(Schedule::parse(text, None).unwrap_err(), why, "{text}");
    }
}

#[test]
fn given_a_day_that_never_comes_then_there_is_no_next_time() {
    assert_eq!(schedule("0 0 30 2 *").next(time("2026-05-01T00:00:00Z")), None);
}

#[test]
fn given_durations_then_they_are_those_of_go() {
    for (text, seconds) in [
        ("90s", Some(90)),
        ("1h30m", Some(5400)),
        ("1.5h", Some(5400)),
        (".5m", Some(30)),
        ("1us", Some(0)),
        ("+1m", Some(60)),
        ("0", Some(0)),
        ("-1m", Some(-60)),
        ("", None),
        ("5", None),
        ("5d", None),
        ("1.2.3s", None),
        (".s", None),
        ("9999999999h", None),
    ] {
        assert_eq!(duration::parse(text).map(|span| span.as_secs()), seconds, "{text}");
    }
}

fn any_field(least: u8, most: u8) -> impl Strategy<Value = String> {
    let number = least..=most;
    prop_oneof![
        3 => Just("*".to_owned()),
        1 => number.clone().prop_map(|n| n.to_string()),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (number.clone(), 1..10_u8).prop_map(|(n, step)| format!("{n}/{step}")),
        1 => (1..20_u8).prop_map(|step| format!("*/{step}")),
        1 => (number.clone(), number).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn any_zone() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("UTC"),
        Just("Europe/Berlin"),
        Just("America/Santiago"),
        Just("Australia/Lord_Howe"),
        Just("Asia/Kolkata"),
        Just("America/New_York"),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(text in ".{0,40}", zone in ".{0,12}") {
        if let Ok(schedule) = Schedule::parse(&text, Some(&zone)) {
            let after = time("2026-05-01T00:00:00Z");
            prop_assert!(schedule.next(after).is_none_or(|next| next > after));
        }
    }

    /// The slow way: every minute of a few days is looked at.
    #[test]
    fn the_next_time_is_the_first_minute_that_matches(
        minute in any_field(0, 59), hour in any_field(0, 23), day in any_field(1, 31), weekday in any_field(0, 6),
        zone in any_zone(), start in 1_772_000_000_i64..1_795_000_000,
    ) {
        let text = format!("TZ={zone} {minute} {hour} {day} * {weekday}");
        let after = Timestamp::from_second(start).unwrap();
        let Schedule::Clock(clock) = schedule(&text) else { panic!() };
        let end = after + SignedDuration::from_hours(100);
        let matches = |at: &Timestamp| {
            let at = at.to_zoned(clock.zone.clone());
            at.second() == 0 && clock.is_day(&at) && clock.hour.has(at.hour()) && clock.minute.has(at.minute())
        };
        let first = Timestamp::from_second(start - start.rem_euclid(60) + 60).unwrap();
        let minutes = std::iter::successors(Some(first), |at| Some(*at + SignedDuration::from_mins(1)));
        let expected = minutes.take_while(|at| *at <= end).find(matches);
        let next = clock.next(after).filter(|next| *next <= end);
        prop_assert_eq!(next, expected, "{}", text);
    }
}
