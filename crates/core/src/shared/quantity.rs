//! Kubernetes quantities (`500m`, `1.5Gi`, `1e3`) in the one form in which the API server writes them.
//!
//! - No fraction and no more digits than needed: `0.5` is `500m`, `1024Mi` is `1Gi`, `1000` is `1k`.
//! - A number keeps its family: powers of 1024 stay such as long as they are whole and at least 1024.
//! - Nothing is finer than a billionth, and [`in_thousandths`] rounds up to thousandths, because that is all a scheduler counts.

const NANOS: i128 = 1_000_000_000;
const MICROS_IN_NANOS: i128 = 1_000_000;
/// The highest amount with a binary suffix.
const MOST: i128 = i64::MAX as i128 * NANOS;

/// An amount that can be reckoned with; it keeps its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    nanos: i128,
    family: Family,
}

impl Amount {
    /// Reads a quantity. `None` when the text is none, or one beyond all bounds.
    pub fn read(text: &str) -> Option<Self> {
        parse(text).map(|(nanos, family)| Self { nanos, family })
    }

    /// An amount of thousandths in powers of ten.
    pub fn of_thousandths(thousandths: i64) -> Self {
        Self {
            nanos: i128::from(thousandths) * MICROS_IN_NANOS,
            family: Family::Decimal,
        }
    }

    /// Returns the amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the amount in thousandths, rounded up.
    pub fn thousandths(self) -> i128 {
        self.nanos.div_euclid(MICROS_IN_NANOS) + i128::from(self.nanos.rem_euclid(MICROS_IN_NANOS) != 0)
    }

    /// Returns so many thousandths in the family of this amount.
    #[must_use]
    pub fn with_thousandths(self, thousandths: i64) -> Self {
        Self {
            family: self.family,
            ..Self::of_thousandths(thousandths)
        }
    }

    /// Returns the sum, in the family of this amount unless it is nothing. `None` beyond all bounds.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            nanos: self.nanos.checked_add(other.nanos)?,
            family: if self.nanos == 0 { other.family } else { self.family },
        })
    }

    /// Returns the amount with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            nanos: self.nanos.saturating_neg(),
            ..self
        }
    }

    /// Returns the canonical form. `None` beyond all bounds.
    pub fn text(self) -> Option<String> {
        shown(self.nanos, self.family)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Decimal,
    Exponent,
    Binary,
}

/// The canonical form. `None` when the text is no quantity, or one beyond all bounds.
pub fn canonical(text: &str) -> Option<String> {
    let (nanos, family) = parse(text)?;
    shown(nanos, family)
}

/// The canonical form, rounded up to thousandths.
pub fn in_thousandths(text: &str) -> Option<String> {
    let (nanos, family) = parse(text)?;
    let rest = nanos % MICROS_IN_NANOS;
    let rounded = match rest {
        0 => nanos,
        rest => (nanos - rest).checked_add(MICROS_IN_NANOS * rest.signum())?,
    };
    shown(rounded, family)
}

/// An amount in billionths, for comparison. `None` when the text is no quantity, or one beyond all bounds.
pub fn nanos(text: &str) -> Option<i128> {
    parse(text).map(|(nanos, _)| nanos)
}

/// As [`nanos`], of a JSON value: a quantity may be written as a number.
pub fn of_value(value: &serde_json::Value) -> Option<i128> {
    nanos(&text_of_value(value)?)
}

/// The text of a JSON value that is a quantity.
pub fn text_of_value(value: &serde_json::Value) -> Option<String> {
    let text = match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => number.to_string(),
        _ => return None,
    };
    nanos(&text).map(|_| text)
}

/// Whether two texts are the same amount. What is no quantity is compared as text.
pub fn is_same(one: &str, other: &str) -> bool {
    match (nanos(one), nanos(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn parse(text: &str) -> Option<(i128, Family)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = unsigned
        .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || number == "." || fraction.contains('.') {
        return None;
    }
    let (family, base, exponent) = scale_of(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let decimals = 9 - i32::try_from(fraction.len()).ok()? + if base == 10 { exponent } else { 0 };
    let digits = if base == 2 {
        digits.checked_mul(1_i128.checked_shl(u32::try_from(exponent).ok()?)?)?
    } else {
        digits
    };
    let mut nanos = shift(digits, decimals)?;
    if family == Family::Binary {
        nanos = nanos.min(MOST);
    }
    let signed = if text.starts_with('-') { -nanos } else { nanos };
    Some((signed, family))
}

/// `digits` times ten to the power of `decimals`, rounded up.
fn shift(digits: i128, decimals: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(decimals.unsigned_abs());
    if decimals >= 0 {
        return if digits == 0 {
            Some(0)
        } else {
            digits.checked_mul(power?)
        };
    }
    match power {
        Some(power) => Some((digits / power) + i128::from(digits % power != 0)),
        None => Some(i128::from(digits != 0)),
    }
}

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

fn scale_of(suffix: &str) -> Option<(Family, i32, i32)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Family::Decimal, 10, *exponent));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((Family::Binary, 2, *exponent));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Family::Exponent, 10, exponent))
}

fn shown(nanos: i128, family: Family) -> Option<String> {
    if nanos == 0 {
        return Some("0".to_owned());
    }
    let whole = nanos / NANOS;
    if family == Family::Binary && nanos % NANOS == 0 && whole.abs() >= 1024 {
        let mut amount = whole;
        let mut suffix = "";
        for (next, _) in BINARY {
            if amount % 1024 != 0 {
                break;
            }
            amount /= 1024;
            suffix = next;
        }
        return Some(format!("{amount}{suffix}"));
    }
    let (mut amount, mut exponent) = (nanos, -9);
    while amount % 1000 == 0 {
        amount /= 1000;
        exponent += 3;
    }
    if family == Family::Exponent {
        let suffix = if exponent == 0 {
            String::new()
        } else {
            format!("e{exponent}")
        };
        return Some(format!("{amount}{suffix}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, known)| *known == exponent)?;
    Some(format!("{amount}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, expected) in [
            ("0", "0"),
            ("0.000", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("0.1005", "100500u"),
            ("1500", "1500"),
            ("1000", "1k"),
            ("100000", "100k"),
            ("1048576", "1048576"),
            ("1024Mi", "1Gi"),
            ("1025Mi", "1025Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1.3Ki", "1331200m"),
            ("1Ki", "1Ki"),
            ("2048", "2048"),
            ("1.5G", "1500M"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e-1", "1200e-3"),
            ("1500e0", "1500"),
            ("1E", "1E"),
            ("0.0000000001", "1n"),
            ("-0.5", "-500m"),
            ("+5", "5"),
            ("16Ei", "9223372036854775807"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn given_more_than_thousandths_then_it_is_rounded_up() {
        for (text, expected) in [
            ("0.1005", "101m"),
            ("100m", "100m"),
            ("1n", "1m"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("-0.1005", "-101m"),
        ] {
            assert_eq!(in_thousandths(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn given_something_else_then_it_is_no_quantity() {
        for text in [
            "",
            ".",
            "-",
            "x",
            "1x",
            "1 Gi",
            "1.2.3",
            "1Kii",
            "Gi",
            "1ee3",
            "1e",
            "1e+",
            "--1",
            "1e99",
            "1000E",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn given_any_text_then_no_panic_and_the_form_is_stable(text in "[-+]?[0-9]{0,20}[.]?[0-9]{0,20}([eEinumkKMGTP]{0,2}[-+]?[0-9]{0,3})|.*") {
            for form in [canonical(&text), in_thousandths(&text)].into_iter().flatten() {
                prop_assert_eq!(canonical(&form), Some(form.clone()));
            }
        }
    }
}
