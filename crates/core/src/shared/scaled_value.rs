//! Counts that users give as a number or as a share of a total: `3`, `"20%"`.

use kruise_api::shared::IntOrPercent;
use kruise_api::shared::int_or_percent::NotAPercentage;

/// How a share is rounded: [`IntOrPercent::ceil_of`] or [`IntOrPercent::floor_of`].
pub type Rounding = fn(&IntOrPercent, i32) -> Result<i32, NotAPercentage>;

/// Returns the count, at least 0; what cannot be read is 0.
pub fn scaled_value(value: &IntOrPercent, total: i32, rounding: Rounding) -> i64 {
    read_scaled(value, total, rounding).unwrap_or(0).max(0)
}

/// Returns the count, if it can be read. A text without `%` is read as if it had one, as users of older releases have it.
pub fn read_scaled(value: &IntOrPercent, total: i32, rounding: Rounding) -> Option<i64> {
    let lenient = |_| match value {
        IntOrPercent::Text(text) => rounding(&IntOrPercent::from(&*format!("{text}%")), total),
        IntOrPercent::Int(count) => Ok(*count),
    };
    rounding(value, total).or_else(lenient).ok().map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_as_asked_and_never_negative() {
        for (value, up, down) in [
            (IntOrPercent::from("25%"), 3, 2),
            (IntOrPercent::from("25"), 3, 2),
            (IntOrPercent::from("-5%"), 0, 0),
            (IntOrPercent::from("many"), 0, 0),
            (IntOrPercent::Int(7), 7, 7),
            (IntOrPercent::Int(-7), 0, 0),
        ] {
            assert_eq!(scaled_value(&value, 10, IntOrPercent::ceil_of), up, "{value:?}");
            assert_eq!(scaled_value(&value, 10, IntOrPercent::floor_of), down, "{value:?}");
        }
    }
}
