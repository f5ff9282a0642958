//! A generated section of `docs/flags.md`, between two markers.

use std::{fs, path::Path};

/// Fails when the section differs from `expected`; writes it instead when `KRUISE_UPDATE_DOCS` is set.
pub(crate) fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    let page = fs::read_to_string(&path).expect("docs/flags.md");
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("docs/flags.md lacks {start}"));
    let (section, after) = rest
        .split_once(&end)
        .unwrap_or_else(|| panic!("docs/flags.md lacks {end}"));
    let expected = format!("{expected}\n");
    if std::env::var_os("KRUISE_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{start}{expected}{end}{after}")).expect("written");
        return;
    }
    assert_eq!(
        section, expected,
        "docs/flags.md is not up to date: run KRUISE_UPDATE_DOCS=1 cargo test -p kruise-manager -p kruise-daemon --test docs"
    );
}
