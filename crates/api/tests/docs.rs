//! The table of kinds in `docs/api.md` is the registry.
//!
//! `KRUISE_UPDATE_DOCS=1 cargo test -p kruise-api --test docs` writes it.

use std::fs;
use std::path::Path;

use kruise_api::registry::{Conversion, KINDS, KindInfo};
use kruise_api::schema::crd;

const START: &str = "<!-- kinds -->\n";
const END: &str = "<!-- end of kinds -->";

fn row(kind: &KindInfo) -> String {
    let storage = kind.storage().unwrap();
    let purpose = crd::schema(storage).unwrap()["description"]
        .as_str()
        .unwrap()
        .to_owned();
    let versions: Vec<_> = kind.versions.iter().map(|version| version.name).collect();
    let short_names: Vec<_> = kind.short_names.iter().map(|name| format!("`{name}`")).collect();
    let conversion = match (kind.versions.len(), kind.conversion) {
        (1, _) => "",
        (_, Conversion::None) => "None",
        (_, Conversion::Webhook) => "Webhook",
    };
    let scale = if storage.scale.is_some() { "yes" } else { "" };
    format!(
        "| {} | {} | `{}` | {} | {} | {:?} | {scale} | {conversion} |\n",
        kind.kind,
        purpose.trim_end_matches('.'),
        kind.group,
        versions.join(", "),
        short_names.join(", "),
        kind.scope,
    )
}

#[test]
fn the_table_of_kinds_is_the_registry() {
    let head = "| kind | what it does | group | versions | short names | scope | scale | conversion |\n|---|---|---|---|---|---|---|---|\n";
    let table: String = [head.to_owned()]
        .into_iter()
        .chain(KINDS.iter().map(|kind| row(kind)))
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let (section, after) = rest.split_once(END).unwrap();
    if std::env::var_os("KRUISE_UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{START}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        section, table,
        "run KRUISE_UPDATE_DOCS=1 cargo test -p kruise-api --test docs"
    );
}
