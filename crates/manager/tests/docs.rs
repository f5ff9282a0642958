//! The pages of flags, gates and webhooks tell what the code does.

#[path = "docs/section.rs"]
mod section;

use kruise_admission::descriptor::{Descriptor, Handler, Hook, Needs, Resource, descriptors};
use kruise_api::gates::Gate;
use kruise_manager::{Flags, controllers, settings::VARIABLES};
use kruise_runtime::flags::{command, markdown};
use std::fmt::Write as _;

#[test]
fn given_the_page_of_flags_then_it_shows_the_flags_and_variables_of_the_manager() {
    section::check("flags.md", "kruise-manager flags", &markdown(&command::<Flags>()));
    let mut table = "| Variable | Default | Meaning |\n|---|---|---|\n".to_owned();
    for variable in VARIABLES {
        let default = match variable.default {
            "" => "empty".to_owned(),
            text => format!("`{text}`"),
        };
        let _ = writeln!(table, "| `{}` | {default} | {} |", variable.name, variable.meaning);
    }
    section::check("flags.md", "kruise-manager environment", table.trim_end());
}

#[test]
fn given_the_page_of_gates_then_it_shows_every_gate() {
    let mut table = "| Gate | Default | Stage | Since | Turns on |\n|---|---|---|---|---|\n".to_owned();
    for gate in Gate::ALL {
        let default = if gate.default_on() { "on" } else { "off" };
        let _ = writeln!(
            table,
            "| `{gate}` | {default} | {:?} | {} | {} |",
            gate.stage(),
            gate.since(),
            gate.turns_on()
        );
    }
    section::check("feature-gates.md", "gates", table.trim_end());
}

#[test]
fn given_the_page_of_webhooks_then_it_shows_what_is_built_of_each_kind() {
    let mut table =
        "| Resource | Needs gates | Changed at | Checked at | Controllers |\n|---|---|---|---|---|\n".to_owned();
    let told = |descriptor: &&Descriptor| {
        descriptor.mutate.is_some() || descriptor.validate.is_some() || !descriptor.controllers.is_empty()
    };
    for descriptor in descriptors().filter(told) {
        let name = match descriptor.resource {
            Resource::Ours(kind) => kind.kind.to_owned(),
            Resource::BuiltIn { group: "", plural, .. } => format!("`{plural}`"),
            Resource::BuiltIn { group, plural, .. } => format!("`{plural}.{group}`"),
        };
        let gates = match descriptor.gates {
            Needs::Nothing => String::new(),
            Needs::All(gates) => joined(gates, ", "),
            Needs::Any(gates) => joined(gates, " or "),
        };
        let running: Vec<_> = descriptor.controllers.iter().map(controller).collect();
        let _ = writeln!(
            table,
            "| {name} | {gates} | {} | {} | {} |",
            hook(descriptor.mutate.as_ref()),
            hook(descriptor.validate.as_ref()),
            running.join(", ")
        );
    }
    section::check("webhooks.md", "kinds", table.trim_end());
}

fn joined(gates: &[Gate], between: &str) -> String {
    let names: Vec<_> = gates.iter().map(|gate| format!("`{gate}`")).collect();
    names.join(between)
}

fn hook(hook: Option<&Hook>) -> String {
    let Some(hook) = hook else { return String::new() };
    let open = if matches!(hook.handler, Handler::NotBuilt) {
        " (not built)"
    } else {
        ""
    };
    format!("`{}`{open}", hook.path)
}

fn controller(controller: &kruise_admission::descriptor::Controller) -> String {
    let open = if controllers::is_built(controller.name) {
        ""
    } else {
        " (not built)"
    };
    format!("`{}`{open}", controller.name)
}
