//! The pages of flags, gates, webhooks, metrics and labels tell what the code does.

#[path = "docs/section.rs"]
mod section;
#[path = "docs/sources.rs"]
mod sources;

use kruise_admission::descriptor::{Descriptor, Handler, Hook, Needs, Resource, descriptors};
use kruise_api::gates::Gate;
use kruise_core::state_metrics::catalogue;
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

#[test]
fn given_the_page_of_metrics_then_it_shows_every_family_of_every_kind() {
    let mut tables = String::new();
    for kind in catalogue() {
        let _ = writeln!(
            tables,
            "### {}\n\n| Family | Labels | Meaning |\n|---|---|---|",
            kind.kind
        );
        for family in &kind.families {
            let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                tables,
                "| `{}` | {} | {} |",
                family.name,
                labels.join(", "),
                family.help
            );
        }
        tables.push('\n');
    }
    section::check("metrics.md", "state metrics", tables.trim_end());
}

#[test]
fn given_the_page_of_metrics_then_it_shows_what_the_manager_tells_about_itself() {
    let mut table = "| Metric | Meaning |\n|---|---|\n".to_owned();
    let metrics = sources::metrics(&["runtime", "admission", "manager"]);
    assert!(metrics.len() > 40, "only {} metrics were found", metrics.len());
    for (name, help) in metrics {
        let _ = writeln!(table, "| `{name}` | {help} |");
    }
    section::check("metrics.md", "manager metrics", table.trim_end());
}

#[test]
fn given_the_page_of_labels_then_it_shows_every_name_on_objects() {
    for (module, section) in [
        ("label", "labels"),
        ("annotation", "annotations"),
        ("finalizer", "finalizers"),
    ] {
        let mut tables = String::new();
        for (title, names) in sources::names(module) {
            if !title.is_empty() {
                let _ = writeln!(tables, "### {title}\n");
            }
            tables.push_str("| Name | Meaning |\n|---|---|\n");
            for (name, meaning) in names {
                let _ = writeln!(tables, "| `{name}` | {meaning} |");
            }
            tables.push('\n');
        }
        section::check("labels.md", section, tables.trim_end());
    }
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
