//! A generated section of a page below `docs/`, between two markers.

use std::{fs, path::Path};

/// Fails when the section differs from `expected`; writes it instead when `KRUISE_UPDATE_DOCS` is set.
pub(crate) fn check(file: &str, name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let page = fs::read_to_string(&path).expect(file);
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("docs/{file} lacks {start}"));
    let (section, after) = rest
        .split_once(&end)
        .unwrap_or_else(|| panic!("docs/{file} lacks {end}"));
    let expected = format!("{expected}\n");
    if std::env::var_os("KRUISE_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{start}{expected}{end}{after}")).expect("written");
        return;
    }
    assert_eq!(
        section, expected,
        "docs/{file} is not up to date: run KRUISE_UPDATE_DOCS=1 cargo test -p kruise-manager -p kruise-daemon --test docs"
    );
}
