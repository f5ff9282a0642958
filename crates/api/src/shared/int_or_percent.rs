//! Counts that may be given as a share of a total: `3`, `"20%"` or `"33.3%"`.

use std::fmt;

int_or_text! {
    /// A count, or a percentage of a total. Text is kept as it was written and judged only when a number is asked for.
    pub enum IntOrPercent, expecting "an integer or a percentage"
}

/// What an [`IntOrPercent`] says, once judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(i32),
    /// Such a share of a total.
    Percent(Percent),
}

impl IntOrPercent {
    /// Returns what it says; a text that is not a percentage is an error. `"10"` is one: a count is written without quotes.
    pub fn amount(&self) -> Result<Amount, NotAPercentage> {
        match self {
            Self::Int(count) => Ok(Amount::Count(*count)),
            Self::Text(text) => Percent::parse(text).map(Amount::Percent),
        }
    }

    /// Returns the count; a percentage of `total` is rounded down.
    pub fn floor_of(&self, total: i32) -> Result<i32, NotAPercentage> {
        self.amount().map(|amount| amount.of(total, Percent::floor_of))
    }

    /// Returns the count; a percentage of `total` is rounded up.
    pub fn ceil_of(&self, total: i32) -> Result<i32, NotAPercentage> {
        self.amount().map(|amount| amount.of(total, Percent::ceil_of))
    }

    /// Returns the count; a percentage of `total` is rounded to the nearest, halves up.
    pub fn round_of(&self, total: i32) -> Result<i32, NotAPercentage> {
        self.amount().map(|amount| amount.of(total, Percent::round_of))
    }
}

impl Amount {
    fn of(self, total: i32, share: fn(Percent, i32) -> i32) -> i32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => share(percent, total),
        }
    }
}

/// A percentage, exact to nine decimal places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    billionths: i64,
}

/// Units of a [`Percent`] in one percent.
const ONE: i64 = 1_000_000_000;
/// Units of a [`Percent`] in the whole.
const WHOLE: i128 = 100 * ONE as i128;

impl Percent {
    /// Reads `20%`, `33.3%` or `-5%`.
    pub fn parse(text: &str) -> Result<Self, NotAPercentage> {
        let wrong = |reason| NotAPercentage {
            text: text.into(),
            reason,
        };
        let number = text.strip_suffix('%').ok_or_else(|| wrong("it does not end with %"))?;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(decimals) {
            return Err(wrong("there is no number before the %"));
        }
        if decimals.len() > 9 {
            return Err(wrong("it has more than nine decimal places"));
        }
        // Both parts are digits only: what can still go wrong is their size.
        let decimals = format!("{decimals:0<9}").parse::<i64>().ok();
        let billionths = whole
            .parse::<i64>()
            .ok()
            .and_then(|whole| whole.checked_mul(ONE)?.checked_add(decimals?));
        let billionths = billionths.ok_or_else(|| wrong("it is too large"))?;
        Ok(Self {
            billionths: if negative { -billionths } else { billionths },
        })
    }

    /// Returns its share of `total`, rounded down.
    pub fn floor_of(self, total: i32) -> i32 {
        clamp(self.times(total).div_euclid(WHOLE))
    }

    /// Returns its share of `total`, rounded up.
    pub fn ceil_of(self, total: i32) -> i32 {
        clamp(-(-self.times(total)).div_euclid(WHOLE))
    }

    /// Returns its share of `total`, rounded to the nearest, halves up.
    pub fn round_of(self, total: i32) -> i32 {
        clamp((2 * self.times(total) + WHOLE).div_euclid(2 * WHOLE))
    }

    fn times(self, total: i32) -> i128 {
        i128::from(self.billionths) * i128::from(total)
    }
}

fn clamp(count: i128) -> i32 {
    count.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32
}

/// So many percent.
impl From<i32> for Percent {
    fn from(percent: i32) -> Self {
        Self {
            billionths: i64::from(percent) * ONE,
        }
    }
}

impl fmt::Debug for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.billionths < 0 { "-" } else { "" };
        let (whole, decimals) = (self.billionths.abs() / ONE, self.billionths.abs() % ONE);
        let text = format!("{sign}{whole}.{decimals:09}");
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Why a text is not a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a percentage: {reason}")]
pub struct NotAPercentage {
    /// The text as it was written.
    pub text: Box<str>,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_and_percentages_are_rounded_each_way() {
        // value, total, floor, ceil, nearest
        let table: &[(IntOrPercent, i32, i32, i32, i32)] = &[
            (3.into(), 10, 3, 3, 3),
            ((-3).into(), 10, -3, -3, -3),
            ("0%".into(), 10, 0, 0, 0),
            ("10%".into(), 10, 1, 1, 1),
            ("25%".into(), 10, 2, 3, 3),
            ("24%".into(), 10, 2, 3, 2),
            ("33.3%".into(), 3, 0, 1, 1),
            ("33.333333334%".into(), 3, 1, 2, 1),
            ("+5%".into(), 100, 5, 5, 5),
            ("-1%".into(), 10, -1, 0, 0),
            ("-10%".into(), 2, -1, 0, 0),
            ("-50%".into(), 1, -1, 0, 0),
            ("1000%".into(), 7, 70, 70, 70),
            ("50%".into(), i32::MAX, 1_073_741_823, 1_073_741_824, 1_073_741_824),
            ("9000000000%".into(), i32::MAX, i32::MAX, i32::MAX, i32::MAX),
        ];
        for (value, total, floor, ceil, nearest) in table {
            let got = (value.floor_of(*total), value.ceil_of(*total), value.round_of(*total));
            assert_eq!(got, (Ok(*floor), Ok(*ceil), Ok(*nearest)), "{value:?} of {total}");
        }
    }

    #[test]
    fn a_text_that_is_no_percentage_is_refused_with_a_reason() {
        let reasons = [
            ("10", "it does not end with %"),
            ("", "it does not end with %"),
            ("%", "there is no number before the %"),
            ("ten%", "there is no number before the %"),
            ("--1%", "there is no number before the %"),
            ("1 %", "there is no number before the %"),
            ("1.%", "there is no number before the %"),
            (".5%", "there is no number before the %"),
            ("1e2%", "there is no number before the %"),
            ("1.0000000001%", "it has more than nine decimal places"),
            ("99999999999999999999%", "it is too large"),
            ("9300000000%", "it is too large"),
        ];
        for (text, reason) in reasons {
            let error = IntOrPercent::from(text).ceil_of(10).unwrap_err();
            assert_eq!((&*error.text, error.reason), (text, reason));
        }
    }

    #[test]
    fn it_is_read_and_written_as_it_came() {
        for json in ["0", "3", "-3", "2147483647", r#""10%""#, r#""10""#, r#""""#, r#"" x ""#] {
            let read: IntOrPercent = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
        for json in ["2147483648", "-2147483649", "1.5", "true", "[]", "{}"] {
            serde_json::from_str::<IntOrPercent>(json).unwrap_err();
        }
    }

    #[test]
    fn a_percentage_is_shown_without_needless_zeros() {
        for text in ["20%", "33.3%", "-0.5%", "100%", "0%"] {
            assert_eq!(format!("{:?}", Percent::parse(text).unwrap()), text);
        }
        assert_eq!(Percent::parse("100%").unwrap(), Percent::from(100));
    }
}
