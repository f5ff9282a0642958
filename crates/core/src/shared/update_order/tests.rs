use super::*;
use kruise_api::shared::scatter::ScatterTerm;
use proptest::prelude::*;
use serde_json::json;

type Item = (usize, Vec<(&'static str, String)>);

fn label<'a>(item: &'a Item, key: &str) -> Option<&'a str> {
    item.1
        .iter()
        .find(|(known, _)| *known == key)
        .map(|(_, value)| &**value)
}

fn items(labels: &[&[(&'static str, &str)]]) -> Vec<Item> {
    let owned =
        |labels: &[(&'static str, &str)]| labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    labels.iter().map(|labels| owned(labels)).enumerate().collect()
}

fn order(mut items: Vec<Item>, strategy: serde_json::Value) -> Vec<usize> {
    let strategy: UpdatePriorityStrategy = serde_json::from_value(strategy).unwrap();
    by_priority(&mut items, Some(&strategy), label);
    items.into_iter().map(|(index, _)| index).collect()
}

#[test]
fn given_weights_then_the_higher_sum_goes_first_and_equals_keep_their_order() {
    let items = items(&[&[], &[("a", "1")], &[("a", "1"), ("b", "x")], &[("b", "y")], &[]]);
    let strategy = json!({"weightPriority": [
        {"weight": 10, "matchSelector": {"matchLabels": {"a": "1"}}},
        {"weight": 20, "matchSelector": {"matchExpressions": [{"key": "b", "operator": "Exists"}]}},
    ]});
    assert_eq!(order(items, strategy), [2, 3, 1, 0, 4]);
}

#[test]
fn given_an_ordered_key_then_pods_without_it_go_first_and_then_the_higher_number() {
    let items = items(&[
        &[("a", "sts-2")],
        &[("a", "sts-10")],
        &[],
        &[("b", "9")],
        &[("a", "abc")],
        &[("a", "99999999999999999999")],
        &[("a", "7x")],
    ]);
    let strategy = json!({"orderPriority": [{"orderedKey": "a"}, {"orderedKey": "b"}]});
    assert_eq!(order(items, strategy), [2, 1, 0, 4, 5, 6, 3]);
}

#[test]
fn given_no_strategy_then_the_order_stays() {
    let mut some = items(&[&[("a", "1")], &[], &[("a", "2")]]);
    by_priority(&mut some, None, label);
    assert_eq!(some.iter().map(|item| item.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(order(some, json!({})), [0, 1, 2]);
}

fn matching(count: usize, matching: &[usize]) -> Vec<Item> {
    let labels = |index| {
        if matching.contains(&index) {
            vec![("k", "v".to_owned())]
        } else {
            vec![]
        }
    };
    (0..count).map(|index| (index, labels(index))).collect()
}

fn scatter(items: &[Item], all: &[Item]) -> Vec<usize> {
    let term = |value: &str| ScatterTerm {
        key: "k".into(),
        value: value.into(),
    };
    scattered(items, all, &[term("v")], label)
        .iter()
        .map(|item| item.0)
        .collect()
}

#[test]
fn scattering_spreads_those_that_match() {
    for (count, matches, expected) in [
        (6, vec![0, 1, 2], vec![0, 3, 4, 1, 5, 2]),
        (6, vec![0], vec![0, 1, 2, 3, 4, 5]),
        (4, vec![0, 1, 2], vec![0, 1, 2, 3]),
        (4, vec![0, 1], vec![0, 2, 3, 1]),
        (6, vec![4, 5], vec![4, 0, 1, 2, 3, 5]),
    ] {
        let all = matching(count, &matches);
        assert_eq!(scatter(&all, &all), expected, "{count} {matches:?}");
    }
}

#[test]
fn given_only_some_pods_are_left_then_the_share_among_all_pods_decides() {
    // All: 5 match, 5 do not. Left: 2 match, 5 do not. The last that matches is kept for the end; of the rest one in two shall match, so four others come first.
    let all = matching(10, &[0, 1, 2, 3, 4]);
    let left: Vec<Item> = all.iter().filter(|item| item.0 >= 3).cloned().collect();
    assert_eq!(scatter(&left, &all), [5, 6, 7, 8, 3, 9, 4]);
}

#[test]
fn given_several_terms_then_the_most_frequent_is_applied_first_and_unknown_ones_not_at_all() {
    let all = items(&[
        &[("k", "a")],
        &[("k", "a")],
        &[("k", "b")],
        &[("k", "b")],
        &[("k", "b")],
        &[],
        &[],
    ]);
    let term = |value: &str| ScatterTerm {
        key: "k".into(),
        value: value.into(),
    };
    let both = scattered(&all, &all, &[term("a"), term("nobody"), term("b")], label);
    let one_by_one = scattered(&scattered(&all, &all, &[term("b")], label), &all, &[term("a")], label);
    assert_eq!(both, one_by_one);
}

proptest! {
    #[test]
    fn scattering_and_sorting_lose_nobody(matches in prop::collection::vec(0..3_u8, 0..40), left in 0..40_usize) {
        let value = |kind: u8| match kind { 0 => vec![], 1 => vec![("k", "v".to_owned())], _ => vec![("k", "w".to_owned())] };
        let all: Vec<Item> = matches.iter().map(|kind| value(*kind)).enumerate().collect();
        let some = &all[left.min(all.len())..];
        let terms: Vec<_> = ["v", "w"].map(|value| ScatterTerm { key: "k".into(), value: value.into() }).into();
        for (items, all) in [(some, all.as_slice()), (all.as_slice(), some), (some, &[])] {
            let mut result: Vec<usize> = scattered(items, all, &terms, label).into_iter().map(|item| item.0).collect();
            result.sort_unstable();
            prop_assert_eq!(result, items.iter().map(|item| item.0).collect::<Vec<_>>());
        }
    }
}
