//! The page of flags tells what the code does.

#[path = "docs/section.rs"]
mod section;

use kruise_manager::{Flags, settings::VARIABLES};
use kruise_runtime::flags::{command, markdown};
use std::fmt::Write as _;

#[test]
fn given_the_page_of_flags_then_it_shows_the_flags_and_variables_of_the_manager() {
    section::check("kruise-manager flags", &markdown(&command::<Flags>()));
    let mut table = "| Variable | Default | Meaning |\n|---|---|---|\n".to_owned();
    for variable in VARIABLES {
        let default = match variable.default {
            "" => "empty".to_owned(),
            text => format!("`{text}`"),
        };
        let _ = writeln!(table, "| `{}` | {default} | {} |", variable.name, variable.meaning);
    }
    section::check("kruise-manager environment", table.trim_end());
}
