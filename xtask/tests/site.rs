//! The docs as a site: each page has its place, and each link leads somewhere. `cargo xtask test` builds the site with `mdBook`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All pages below docs, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.insert(path, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    assert!(pages.len() > 30);
    pages
}

/// The text without blocks and spans of code.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                let spans = line.split('`').step_by(2);
                prose.extend(spans);
                prose.push('\n');
            }
            _ => {}
        }
    }
    prose
}

/// Where a text links to.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let starts = prose.match_indices("](").map(|(at, mark)| at + mark.len());
    let target = |start: usize| prose[start..].split([')', ' ', '\n']).next().unwrap_or_default();
    starts.map(target).map(str::to_owned).collect()
}

/// The anchors of a page, as GitHub and `mdBook` name its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let depth = line.chars().take_while(|letter| *letter == '#').count();
        if is_code || !(1..=6).contains(&depth) || !line[depth..].starts_with(' ') {
            continue;
        }
        let title = line[depth..].trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let slug: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let count = counts.entry(slug.clone()).or_insert(0);
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// A path with `..` taken away.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn given_the_pages_then_each_is_in_the_summary_once_and_has_one_title() {
    let pages = pages();
    let summary = PathBuf::from("docs/SUMMARY.md");
    let mut listed: Vec<PathBuf> = links(&pages[&summary])
        .iter()
        .map(|link| plain(&Path::new("docs").join(link)))
        .collect();
    listed.sort();
    let all: Vec<PathBuf> = pages.keys().filter(|path| **path != summary).cloned().collect();
    assert_eq!(listed, all);
    for path in &all {
        let titles = prose(&pages[path])
            .lines()
            .filter(|line| line.starts_with("# "))
            .count();
        assert_eq!(titles, 1, "{}", path.display());
    }
}

#[test]
fn given_the_pages_and_the_front_door_then_every_link_leads_somewhere() {
    let mut pages = pages();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        pages.insert(name.into(), fs::read_to_string(root().join(name)).unwrap());
    }
    let mut dead = Vec::new();
    let mut count = 0;
    for (page, text) in &pages {
        for link in links(text) {
            if ["http://", "https://", "mailto:"]
                .iter()
                .any(|scheme| link.starts_with(scheme))
            {
                continue;
            }
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                plain(&page.parent().unwrap().join(file))
            };
            let is_there = root().join(&target).exists();
            let has_anchor = anchor.is_empty() || pages.get(&target).is_some_and(|text| anchors(text).contains(anchor));
            if !is_there || !has_anchor {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn given_headings_then_their_anchors_are_those_of_the_site() {
    let text = "# One `two` (three)\n\n## A.b, c\n\n```\n# no\n```\n## A.b, c\n";
    let found: Vec<_> = anchors(text).into_iter().collect();
    assert_eq!(found, ["ab-c", "ab-c-1", "one-two-three"]);
    assert_eq!(
        links("see [a](b.md#c), `[no](d)` and [e](f \"title\")"),
        ["b.md#c", "f"]
    );
}
