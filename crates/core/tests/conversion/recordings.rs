//! Every recording against our conversion. What differs must stand in the table of differences, and what stands there
//! must still differ.

use super::differences::DIFFERENCES;
use super::fixture::{KINDS, flip, recordings};
use super::normal::normal;
use serde_json::Value;
use std::collections::BTreeSet;

/// (kind, case, step, path)
type Found = BTreeSet<(String, String, &'static str, String)>;

#[derive(Default)]
struct Comparison {
    found: Found,
    compared: usize,
    details: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, kind: &str, case: &str, step: &'static str, ours: Value, theirs: Value) {
        self.compared += 1;
        let (ours, theirs) = (normal(kind, ours), normal(kind, theirs));
        let mut paths = Vec::new();
        differing(Some(&ours), Some(&theirs), "", &mut paths);
        for (path, ours, theirs) in paths {
            let show = |side: Option<&Value>| side.map_or("nothing".to_owned(), Value::to_string);
            let (ours, theirs) = (show(ours), show(theirs));
            self.details
                .push(format!("{kind} {case} {step} {path}: ours {ours}, theirs {theirs}"));
            self.found.insert((kind.to_owned(), case.to_owned(), step, path));
        }
    }
}

#[test]
fn our_answers_equal_the_recordings_but_for_the_listed_differences() {
    let mut comparison = Comparison::default();
    for kind in KINDS {
        let recordings = recordings(kind);
        for case in &recordings.stored {
            let (alpha, beta) = (case.v1alpha1(), case.v1beta1.clone());
            let unsupported = beta.pointer("/spec/template/imageListPullJobTemplate").is_some();
            if !unsupported {
                comparison.compare(kind, &case.name, "down", flip(&beta), alpha.clone());
            }
            let roundtrip = case.roundtrip();
            // What v1beta1 shows after a write through v1alpha1, where that was recorded.
            let written = roundtrip.as_ref().filter(|_| case.name.starts_with("v1beta1"));
            let expected = written.map_or(beta, |(_, after)| after.clone());
            comparison.compare(kind, &case.name, "up", flip(&alpha), expected);
            if let Some((before, after)) = roundtrip {
                comparison.compare(kind, &case.name, "roundtrip", flip(&flip(&before)), after);
            }
        }
        for case in &recordings.direct {
            let (Some(response), Some(back)) = (case.response(), case.back()) else {
                continue;
            };
            comparison.compare(kind, &case.name, "direct", flip(&case.request), response.clone());
            comparison.compare(kind, &case.name, "back", flip(&response), back);
        }
    }
    let listed: Found = DIFFERENCES
        .iter()
        .flat_map(|row| {
            let name = |case: &&str| (row.kind.to_owned(), (*case).to_owned(), row.step, row.path.to_owned());
            row.cases.iter().map(name)
        })
        .collect();
    println!(
        "compared {} conversions, {} listed differences",
        comparison.compared,
        listed.len()
    );
    let unlisted: Vec<_> = comparison.found.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&comparison.found).collect();
    assert!(DIFFERENCES.iter().all(|row| !row.why.is_empty()));
    assert!(
        unlisted.is_empty() && stale.is_empty(),
        "not listed: {unlisted:#?}\nlisted but equal: {stale:#?}\n{}",
        comparison.details.join("\n"),
    );
    assert_eq!(comparison.compared, 631, "a recording was lost or added");
}

type Side<'a> = Option<&'a Value>;

/// Differing fields as paths; of a key such as `example.com/name` only the name is shown.
fn differing<'a>(ours: Side<'a>, theirs: Side<'a>, path: &str, out: &mut Vec<(String, Side<'a>, Side<'a>)>) {
    match (ours, theirs) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let name = key.rsplit('/').next().unwrap_or(key);
                let dot = if path.is_empty() { "" } else { "." };
                differing(a.get(key), b.get(key), &format!("{path}{dot}{name}"), out);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differing(Some(a), Some(b), &format!("{path}[{index}]"), out);
            }
        }
        _ if ours != theirs => out.push((path.to_owned(), ours, theirs)),
        _ => {}
    }
}
