//! The page of flags tells what the code does.

#[path = "../../manager/tests/docs/section.rs"]
mod section;

use kruise_daemon::Flags;
use kruise_runtime::flags::{command, markdown};

#[test]
fn given_the_page_of_flags_then_it_shows_the_flags_of_the_daemon() {
    section::check("flags.md", "kruise-daemon flags", &markdown(&command::<Flags>()));
}
