use super::*;
use proptest::prelude::*;

fn with(expression: &str, name: &str, value: &str) -> Result<String, ExpressionError> {
    let value = Quantity(Amount::read(value).unwrap());
    evaluate(expression, Variable { name, value }).map(|amount| amount.text().unwrap())
}

/// As validation asks: with the plain number 1.
fn with_one(expression: &str, name: &str) -> Result<String, ExpressionError> {
    let value = Plain(1.0);
    evaluate(expression, Variable { name, value }).map(|amount| amount.text().unwrap())
}

#[test]
fn expressions_have_the_values_that_users_expect() {
    for (expression, name, value, expected) in [
        ("max(cpu*25%, 150m)", "cpu", "800m", "200m"),
        ("max(cpu*25%, 150m)", "cpu", "100m", "150m"),
        ("min(cpu*50%, 200m)", "cpu", "1", "200m"),
        ("memory/4 + 256Mi", "memory", "4Gi", "1280Mi"),
        ("memory*30%", "memory", "1Gi", "322122547200m"),
        ("MEMORY * 50%", "memory", "1Gi", "512Mi"),
        ("Max(cpu, Min(1, 2))", "cpu", "500m", "1"),
        ("50% * cpu", "cpu", "1", "500m"),
        ("cpu*50%", "cpu", "0", "0"),
        ("200Mi", "memory", "1", "200Mi"),
        ("0.1", "cpu", "1", "100m"),
        ("1e3", "cpu", "1", "1k"),
        ("1e-1 + 1E+1", "cpu", "1", "10100m"),
        ("1.5Gi - 512Mi", "memory", "1", "1Gi"),
        ("8 - 4 - 2", "cpu", "1", "2"),
        ("8 / 4 / 2", "cpu", "1", "1"),
        ("2 + 3 * 4", "cpu", "1", "14"),
        ("(2 + 3) * 4", "cpu", "1", "20"),
        ("--1", "cpu", "1", "1"),
        ("-(1 - 3)", "cpu", "1", "2"),
        ("max(1Gi, 1024Mi)", "memory", "1", "1Gi"),
        ("max(1000m, 1)", "cpu", "1", "1"),
        ("cpu*33.3333%", "cpu", "100m", "33m"),
        ("\tcpu \n+ 0", "cpu", "3", "3"),
    ] {
        assert_eq!(with(expression, name, value).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn given_an_expression_without_a_value_then_it_is_said_why() {
    use ExpressionError::{
        DividedByQuantity, DividedByZero, Negative, NotANumber, QuantityTimesQuantity, TooLarge, TooShort, Unexpected,
        Unknown,
    };
    let unexpected = |found: &str, at| Unexpected {
        found: found.to_owned(),
        at,
    };
    for (expression, expected) in [
        ("", TooShort),
        ("  ", TooShort),
        ("cpu +", TooShort),
        ("(cpu", TooShort),
        ("max(cpu, 1", TooShort),
        ("max(cpu)", unexpected(")", 7)),
        ("max(1, 2, 3)", unexpected(",", 8)),
        ("max 1", unexpected("1", 4)),
        ("cpu cpu", unexpected("c", 4)),
        ("100 m", unexpected("m", 4)),
        ("cpu)", unexpected(")", 3)),
        ("*cpu", unexpected("*", 0)),
        ("cpu % 2", unexpected("%", 4)),
        ("é", unexpected("é", 0)),
        ("memory", Unknown("memory".into())),
        ("avg(1, 2)", Unknown("avg".into())),
        ("100x", NotANumber("100x".into())),
        ("100mi", NotANumber("100mi".into())),
        ("5E", NotANumber("5E".into())),
        ("5n", NotANumber("5n".into())),
        ("1e3Ki", NotANumber("1e3Ki".into())),
        ("1e+x", NotANumber("1e+x".into())),
        ("1.2.3", NotANumber("1.2.3".into())),
        (".", NotANumber(".".into())),
        ("1e999", NotANumber("1e999".into())),
        ("cpu*cpu", QuantityTimesQuantity),
        ("1/cpu", DividedByQuantity),
        ("cpu/0", DividedByZero),
        ("cpu/(1-1)", DividedByZero),
        ("1/0%", DividedByZero),
        ("1e300 * 1e300", TooLarge),
        ("cpu * 1e300", TooLarge),
        ("cpu / 1e-300", TooLarge),
        ("cpu + 1e300", TooLarge),
        ("cpu - 4", Negative("-3".into())),
        ("-1", Negative("-1".into())),
    ] {
        assert_eq!(with(expression, "cpu", "1"), Err(expected), "{expression}");
    }
}

#[test]
fn given_the_plain_number_one_then_what_users_may_write_is_known() {
    assert_eq!(with_one("cpu*cpu", "cpu").as_deref(), Ok("1"));
    assert_eq!(with_one("MEMORY*50%", "memory").as_deref(), Ok("500m"));
    for (expression, name) in [("cpu-4", "cpu"), ("memory-100Mi", "memory"), ("memory", "cpu")] {
        assert!(with_one(expression, name).is_err(), "{expression}");
    }
}

#[test]
fn given_nesting_then_there_is_a_limit_and_the_stack_holds() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(with(&nested(DEEPEST - 1), "cpu", "1").as_deref(), Ok("1"));
    for deep in [
        nested(DEEPEST),
        nested(1_000_000),
        format!("{}1", "-".repeat(1_000_000)),
        "max(".repeat(1_000_000),
    ] {
        assert_eq!(with(&deep, "cpu", "1"), Err(ExpressionError::TooDeep));
    }
    let long = vec!["1"; 100_000].join("+");
    assert_eq!(with(&long, "cpu", "1").as_deref(), Ok("100k"));
}

proptest! {
    #[test]
    fn given_any_text_then_no_panic_and_a_value_is_a_quantity_that_is_not_negative(
        text in "([-+*/(),% ]|max|min|cpu|memory|[0-9]{1,25}|[.]|[eE]|Ki|Mi|Gi|m|k|M){0,30}|.*",
        value in "[0-9]{1,18}(m|Mi|Gi|)",
    ) {
        for value in [Plain(1.0), Amount::read(&value).map_or(Plain(0.0), Quantity)] {
            for name in ["cpu", "memory"] {
                if let Ok(amount) = evaluate(&text, Variable { name, value }) {
                    prop_assert!(amount.nanos() >= 0);
                    prop_assert!(amount.text().is_some());
                }
            }
        }
    }
}
