//! Which Pods are updated first.
//!
//! - [`by_priority`]: Pods with a higher sum of weights go first; or Pods are sorted by a label that ends with a number, higher numbers first.
//!   A Pod that has none of the labels goes **before** all others. That is contrary to the description of the field, but users have it so.
//! - [`scattered`]: Pods with a certain label are spread over the rollout, instead of being updated in a row.
//!
//! Both are generic over what is ordered; `label` looks a label up.

mod scatter;

pub use scatter::scattered;

use kruise_api::shared::update_priority::{OrderTerm, UpdatePriorityStrategy, WeightTerm};

use super::selector;

/// Sorts by the strategy; what is equal stays in the order it came in.
pub fn by_priority<T>(
    items: &mut [T],
    strategy: Option<&UpdatePriorityStrategy>,
    label: impl for<'a> Fn(&'a T, &str) -> Option<&'a str>,
) {
    let Some(strategy) = strategy else { return };
    if !strategy.weight_priority.is_empty() {
        items.sort_by_cached_key(|item| std::cmp::Reverse(weight(&strategy.weight_priority, |key| label(item, key))));
    } else if !strategy.order_priority.is_empty() {
        items.sort_by_cached_key(|item| {
            let (level, number) = rank(&strategy.order_priority, |key| label(item, key));
            (level, std::cmp::Reverse(number))
        });
    }
}

fn weight<'a>(terms: &[WeightTerm], label: impl Fn(&str) -> Option<&'a str>) -> i64 {
    let matching = terms
        .iter()
        .filter(|term| selector::matches(&term.match_selector, &label));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// Level (which of the keys, -1 for none) and number.
fn rank<'a>(terms: &[OrderTerm], label: impl Fn(&str) -> Option<&'a str>) -> (i32, i64) {
    let found = terms
        .iter()
        .zip(0_i32..)
        .find_map(|(term, level)| Some((level, label(&term.ordered_key)?)));
    found.map_or((-1, 0), |(level, value)| (level, trailing_number(value)))
}

/// The digits at the end of a text; 0 when there are none, or too many.
fn trailing_number(text: &str) -> i64 {
    let digits = text.trim_end_matches(|sign: char| sign.is_ascii_digit()).len();
    text.get(digits..)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
