//! What another reader of schedules says, where it means the same as users of the original: fields without a number that goes on by steps (`5/15`), without `?`, and days of
//! the week without 7. Zones have no summer time in these years; the other reader moves what falls into the hour that is left out, and gives what comes twice once.

use std::str::FromStr as _;

use super::*;

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// One item of a field: a number, a name, a range, or a range with steps.
fn any_item(least: u8, most: u8, names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let number = least..=most;
    let word = move |number: u8| match names.get(usize::from(number - least)) {
        Some(name) => (*name).to_owned(),
        None => number.to_string(),
    };
    prop_oneof![
        3 => number.clone().prop_map(|n| n.to_string()),
        1 => number.clone().prop_map(word),
        2 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (number.clone(), number, 1..9_u8).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
    ]
}

fn any_field(least: u8, most: u8, names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let list = proptest::collection::vec(any_item(least, most, names), 1..4);
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (2..20_u8).prop_map(|step| format!("*/{step}")),
        5 => list.prop_map(|items| items.join(",")),
    ]
}

/// The next time as the other reader has it, if it is near enough for us.
fn expected(text: &str, zone: &str, after: Timestamp) -> Option<Timestamp> {
    let after = after.in_tz(zone).unwrap();
    let next = croner::Cron::from_str(text)
        .unwrap()
        .find_next_occurrence(&after, false);
    let next = next.ok().filter(|next| next.year() <= after.year() + YEARS)?;
    Some(next.timestamp())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn another_reader_names_the_same_times(
        minute in any_field(0, 59, &[]), hour in any_field(0, 23, &[]), day in any_field(1, 31, &[]),
        month in any_field(1, 12, &MONTHS), weekday in any_field(0, 6, &WEEKDAYS),
        zone in prop_oneof![Just("UTC"), Just("Asia/Kolkata"), Just("Asia/Shanghai")],
        start in 1_700_000_000_i64..2_100_000_000,
    ) {
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        let mut after = Timestamp::from_second(start).unwrap();
        let ours = Schedule::parse(&text, Some(zone)).unwrap();
        for _ in 0..3 {
            let next = ours.next(after);
            prop_assert_eq!(next, expected(&text, zone, after), "{} in {} after {}", &text, zone, after);
            let Some(next) = next else { break };
            after = next;
        }
    }
}

#[test]
fn given_days_that_are_rare_or_never_come_then_the_other_reader_agrees() {
    let after = time("2026-05-01T00:00:00Z");
    for text in [
        "0 0 29 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 31 12 SUN",
        "59 23 31 * *",
    ] {
        assert_eq!(schedule(text).next(after), expected(text, "UTC", after), "{text}");
    }
}
