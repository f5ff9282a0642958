//! Writing the samples of one family of one object.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;

use kruise_api::shared::IntOrPercent;
use kruise_api::shared::conditions::ConditionStatus;

use super::key;
use super::options::{AllowedKeys, Options};
use crate::shared::scaled_value::{Rounding, read_scaled};

/// Where a sample is in the page.
#[derive(Debug)]
pub(super) struct Span {
    /// Name and labels.
    labels: Range<usize>,
    /// Behind the end of the line.
    end: usize,
}

/// Takes the samples of one family of one object, and writes them at once.
#[derive(Debug)]
pub struct Samples<'a> {
    pub(super) out: &'a mut String,
    pub(super) options: &'a Options,
    /// Whole name of the family.
    pub(super) name: &'a str,
    /// The labels that every sample of the object has, with the brace before them.
    pub(super) head: &'a str,
    /// Where the samples of this object are.
    pub(super) written: &'a mut Vec<Span>,
    pub(super) is_unreadable: bool,
}

impl<'a> Samples<'a> {
    pub(super) fn options(&self) -> &'a Options {
        self.options
    }

    /// Writes a number.
    pub(super) fn number(&mut self, value: i64) {
        self.labelled(&[], value);
    }

    /// Writes what only a label tells.
    pub(super) fn info(&mut self, label: &str, text: &str) {
        self.labelled(&[(label, text)], 1);
    }

    /// Writes a number with labels.
    pub(super) fn labelled(&mut self, labels: &[(&str, &str)], value: i64) {
        let start = self.out.len();
        self.out.push_str(self.name);
        self.out.push_str(self.head);
        for (label, text) in labels {
            push_label(self.out, label, text);
        }
        let labels = start..self.out.len();
        // A string takes everything.
        let _ = writeln!(self.out, "}} {value}");
        let end = self.out.len();
        self.written.push(Span { labels, end });
    }

    /// Says that the object has a value here that means nothing.
    pub(super) fn unreadable(&mut self) {
        self.is_unreadable = true;
    }

    /// Writes a count that may be given as a share of a total.
    pub(super) fn share(&mut self, value: &IntOrPercent, total: i32, rounding: Rounding) {
        match read_scaled(value, total, rounding) {
            Some(count) => self.number(count),
            None => self.unreadable(),
        }
    }

    /// Writes a count or a share as it is given, if it is.
    pub(super) fn as_given(&mut self, label: &str, value: Option<&IntOrPercent>) {
        match value {
            Some(IntOrPercent::Int(count)) => self.info(label, &count.to_string()),
            Some(IntOrPercent::Text(text)) => self.info(label, text),
            None => {}
        }
    }

    /// Writes which of some words is the one: 1 for it, 0 for the others.
    pub(super) fn one_of(&mut self, label: &str, words: &[&str], chosen: &str) {
        for word in words {
            self.labelled(&[(label, word)], i64::from(*word == chosen));
        }
    }

    /// Writes whether a condition holds, in three samples.
    pub(super) fn condition(&mut self, type_: &str, status: &ConditionStatus) {
        for (text, word) in [
            ("true", ConditionStatus::True),
            ("false", ConditionStatus::False),
            ("unknown", ConditionStatus::Unknown),
        ] {
            self.labelled(&[("condition", type_), ("status", text)], i64::from(*status == word));
        }
    }

    /// Writes those of an object's labels or annotations that are allowed.
    pub(super) fn pairs(&mut self, prefix: &str, allowed: &AllowedKeys, pairs: &[(&str, &str)]) {
        let allowed: Vec<_> = pairs.iter().filter(|(key, _)| allowed.contains(key)).collect();
        let keys = key::label_names(prefix, allowed.iter().map(|(key, _)| *key));
        let labels: Vec<_> = keys
            .iter()
            .zip(&allowed)
            .map(|(key, (_, value))| (key.as_str(), *value))
            .collect();
        self.labelled(&labels, 1);
    }

    /// Takes back what was said twice.
    pub(super) fn finish(self) {
        if self.written.len() < 2 {
            return;
        }
        let twice: Vec<_> = {
            let mut seen = HashSet::new();
            let repeated = self
                .written
                .iter()
                .filter(|span| !seen.insert(self.out.get(span.labels.clone())));
            repeated.map(|span| span.labels.start..span.end).collect()
        };
        // From the back, so that what is before stays where it is.
        for span in twice.into_iter().rev() {
            self.out.drain(span);
        }
    }
}

/// Writes `,label="text"`, with what would end the text escaped.
pub(super) fn push_label(out: &mut String, label: &str, text: &str) {
    out.push(',');
    out.push_str(label);
    out.push_str("=\"");
    push_escaped(out, text);
    out.push('"');
}

pub(super) fn push_escaped(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut signs = from.chars();
        out.push_str(match signs.next() {
            Some('\n') => "\\n",
            Some('"') => "\\\"",
            _ => "\\\\",
        });
        rest = signs.as_str();
    }
    out.push_str(rest);
}
