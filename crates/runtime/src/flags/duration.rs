//! Durations as Go writes them: numbers with a unit, one after the other, each number may have a fraction.

use std::time::Duration;

/// The longest duration Go can hold, in nanoseconds; a longer one is an error there as well.
const LONGEST: u128 = i64::MAX as u128;

/// Reads `15s`, `2m`, `1h30m`, `1.5h`, `5ms`, `0`. Negative durations make no sense for any of our flags and are refused.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if unsigned.starts_with('-') {
        return Err(format!("{text:?} is a negative duration"));
    }
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    let nanos = sum_of_parts(unsigned)
        .ok_or_else(|| format!("{text:?} is not a duration: write for example 15s, 2m or 1h30m"))?;
    if nanos > LONGEST {
        return Err(format!("{text:?} is too long for a duration"));
    }
    let whole = u64::try_from(nanos).map_err(|_| format!("{text:?} is too long for a duration"))?;
    Ok(Duration::from_nanos(whole))
}

fn sum_of_parts(text: &str) -> Option<u128> {
    let mut rest = text;
    let mut total = 0_u128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (whole, after_whole) = split_digits(rest);
        let (fraction, after_number) = match after_whole.strip_prefix('.') {
            Some(after_dot) => split_digits(after_dot),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after_number
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after_number.len());
        let (unit, after_unit) = after_number.split_at(unit_end);
        total = total.checked_add(part(whole, fraction, nanos_of(unit)?)?)?;
        rest = after_unit;
    }
    Some(total)
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `whole.fraction` units in nanoseconds; what is below a nanosecond is cut off.
fn part(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut weight = unit;
    for digit in fraction.chars() {
        weight /= 10;
        nanos = nanos.checked_add(weight * u128::from(digit.to_digit(10)?))?;
    }
    Some(nanos)
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // Both spellings of the Greek letter are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_go_durations_then_they_are_read() {
        let table = [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("2m", 120_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1000s", 1_000_000_000_000),
            ("5ms", 5_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("3us", 3_000),
            ("3\u{b5}s", 3_000),
            ("3\u{3bc}s", 3_000),
            ("7ns", 7),
            ("0.0000000001s", 0),
        ];
        for (text, nanos) in table {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn given_anything_else_then_the_message_names_it() {
        for bad in [
            "",
            "5",
            "s",
            "5d",
            "1h 30m",
            "-5s",
            "1..5s",
            ".s",
            "5ss",
            "ten",
            "99999999h",
            "+",
            "+-5s",
            "5s.",
        ] {
            let message = parse_duration(bad).expect_err(bad);
            assert!(message.contains(&format!("{bad:?}")), "{message}");
        }
    }

    #[test]
    fn given_very_long_digits_then_no_panic() {
        assert!(parse_duration(&format!("{}h", "9".repeat(200))).is_err());
        assert!(parse_duration(&format!("0.{}s", "9".repeat(200))).is_ok());
    }
}
