//! Spreading Pods with a certain label over a rollout.

use kruise_api::shared::scatter::ScatterTerm;

/// The items in an order in which those that match a term are spread among the others. `all` are all Pods of the workload, `items` those to
/// be updated: the share of matching Pods among all of them tells how dense they should come.
pub fn scattered<T: Clone>(
    items: &[T],
    all: &[T],
    terms: &[ScatterTerm],
    label: impl for<'a> Fn(&'a T, &str) -> Option<&'a str>,
) -> Vec<T> {
    let matches = |item: &T, term: &ScatterTerm| label(item, &term.key) == Some(&term.value);
    let mut items = items.to_vec();
    for term in in_order(&items, terms, matches) {
        items = spread(&items, all, |item| matches(item, term));
    }
    items
}

/// Several terms: the most frequent first, those that nobody matches not at all.
fn in_order<'a, T>(
    items: &[T],
    terms: &'a [ScatterTerm],
    matches: impl Fn(&T, &ScatterTerm) -> bool,
) -> Vec<&'a ScatterTerm> {
    if terms.len() <= 1 {
        return terms.iter().collect();
    }
    let count = |term: &ScatterTerm| items.iter().filter(|item| matches(item, term)).count();
    let mut counted: Vec<_> = terms.iter().map(|term| (count(term), term)).collect();
    counted.retain(|(count, _)| *count > 0);
    counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    counted.into_iter().map(|(_, term)| term).collect()
}

fn spread<T: Clone>(items: &[T], all: &[T], matches: impl Fn(&T) -> bool) -> Vec<T> {
    let (mut matching, others): (Vec<T>, Vec<T>) = items.iter().cloned().partition(|item| matches(item));
    if matching.len() <= 1 || others.len() <= 1 {
        return items.to_vec();
    }
    let last = matching.pop();
    let all_matching = all.iter().filter(|item| matches(item)).count();
    let all_others = all.len() - all_matching;
    // A workload whose own list lacks the candidates is judged by the candidates.
    let all_matching = all_matching.saturating_sub(1).max(matching.len());
    let all_others = all_others.max(others.len());

    let (rounds, each, between, first) = portions(matching.len(), others.len(), all_matching, all_others);
    let (mut matching, mut others) = (matching.into_iter(), others.into_iter());
    let mut result: Vec<T> = others.by_ref().take(first).collect();
    for _ in 0..rounds {
        result.extend(matching.by_ref().take(each));
        result.extend(others.by_ref().take(between));
    }
    result.extend(matching);
    result.extend(others);
    result.extend(last);
    result
}

/// How many rounds, how many matching and how many others in each, and how many others come before.
fn portions(matching: usize, others: usize, all_matching: usize, all_others: usize) -> (usize, usize, usize, usize) {
    if all_others * matching >= others * all_matching {
        let (rounds, each, between) = pair(matching, others);
        (rounds, each, between, 0)
    } else {
        let (_, each, between) = pair(all_matching, all_others);
        let rounds = (matching / each).min(others / between);
        (rounds, each, between, others - rounds * between)
    }
}

/// The smaller number, and both divided by it, rounded half up. Never 0: both are at least 1 here.
fn pair(x: usize, y: usize) -> (usize, usize, usize) {
    let smaller = x.min(y).max(1);
    let round = |number: usize| ((2 * number + smaller) / (2 * smaller)).max(1);
    (smaller, round(x), round(y))
}
