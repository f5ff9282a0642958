//! Durations as Go writes them: `90s`, `1h30m`, `1.5h`, `-5m`.

use jiff::SignedDuration;

/// Units in nanoseconds; a longer name before one that it begins with.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration; none when it is not one, or too long.
pub(super) fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(digits);
        let (_, unit, after) = UNITS
            .iter()
            .filter_map(|(name, unit)| Some((name, *unit, after.strip_prefix(name)?)))
            .max_by_key(|(name, _, _)| name.len())?;
        total = total.checked_add(amount(number, unit)?)?;
        rest = after;
    }
    let nanos = i64::try_from(if negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

fn amount(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut worth = unit;
    for digit in fraction.chars() {
        worth /= 10;
        nanos = nanos.checked_add(worth * i128::from(digit.to_digit(10)?))?;
    }
    Some(nanos)
}
