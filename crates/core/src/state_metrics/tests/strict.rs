//! A strict reader of the text format: what it accepts, Prometheus accepts.

use std::collections::{BTreeMap, BTreeSet};

/// One sample: name, labels, value.
pub(super) type Sample = (String, Vec<(String, String)>, f64);

/// Reads a page, and fails where it is not as the format wants it.
pub(super) fn check(page: &str) -> Vec<Sample> {
    assert!(page.is_empty() || page.ends_with('\n'), "the last line has no end");
    let (mut samples, mut seen, mut done) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut helps: BTreeMap<&str, &str> = BTreeMap::new();
    let mut family = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(helps.insert(name, help).is_none(), "{name} is announced twice");
            assert!(!help.trim().is_empty(), "{name} has no help text");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, type_) = rest.split_once(' ').expect("a type");
            assert!(helps.contains_key(name), "{name} has a type before its help text");
            assert_eq!(type_, "gauge", "{name}");
            assert!(done.insert(name), "{name} has two types");
            family = name;
        } else {
            let sample = sample(line);
            assert_eq!(sample.0, family, "a sample stands below another family: {line}");
            let names: BTreeSet<_> = sample.1.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), sample.1.len(), "a label is there twice: {line}");
            let mut sorted = sample.1.clone();
            sorted.sort();
            assert!(
                seen.insert((sample.0.clone(), sorted)),
                "a series is there twice: {line}"
            );
            samples.push(sample);
        }
    }
    samples
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').expect("labels");
    let is_name = |name: &str, more: &str| {
        let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || more.contains(sign);
        !name.is_empty() && name.chars().all(fits) && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    assert!(is_name(name, ":"), "{name:?} is no name of a metric");
    let (mut labels, mut rest) = (Vec::new(), rest);
    while !rest.starts_with('}') {
        let (label, value) = rest.split_once("=\"").expect("a label");
        assert!(
            is_name(label, "") && !label.starts_with("__"),
            "{label:?} is no name of a label"
        );
        let (text, behind) = unescaped(value);
        labels.push((label.to_owned(), text));
        rest = behind.strip_prefix(',').unwrap_or(behind);
        assert!(behind.starts_with([',', '}']), "{line}");
    }
    let value = rest.strip_prefix("} ").expect("a blank and a value");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

/// Reads text up to its quote; returns it and what is behind the quote.
fn unescaped(text: &str) -> (String, &str) {
    let (mut read, mut signs) = (String::new(), text.chars());
    loop {
        match signs.next().expect("a closing quote") {
            '"' => return (read, signs.as_str()),
            '\\' => read.push(match signs.next() {
                Some('n') => '\n',
                Some(sign @ ('\\' | '"')) => sign,
                other => panic!("\\{other:?} is no escape"),
            }),
            sign => read.push(sign),
        }
    }
}

#[test]
fn given_what_the_format_forbids_then_the_reader_refuses_it() {
    let announced = "# HELP a A.\n# TYPE a gauge\n";
    check(&format!("{announced}a{{b=\"\\\"\\n\\\\\",c=\"\"}} 1\n"));
    for bad in [
        format!("{announced}a{{b=\"1\",b=\"2\"}} 1\n"),
        format!("{announced}a{{b=\"1\"}} 1\na{{b=\"1\"}} 2\n"),
        format!("{announced}a{{b=\"1\"}} one\n"),
        format!("{announced}a{{b=\"1\"}} 1"),
        format!("{announced}a{{b.c=\"1\"}} 1\n"),
        format!("{announced}c{{b=\"1\"}} 1\n"),
        format!("{announced}{announced}"),
        "# TYPE a gauge\n".to_owned(),
        "# HELP a A.\n# TYPE a counter\n".to_owned(),
    ] {
        assert!(std::panic::catch_unwind(|| check(&bad)).is_err(), "{bad}");
    }
}
