//! The table of flags for the user's documentation, made from the definitions the process itself uses.

use clap::{Arg, Command};
use std::fmt::Write as _;

/// Returns one Markdown table per group of flags, in the order of their definition.
pub fn markdown(command: &Command) -> String {
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments() {
        if arg.is_hide_set() || arg.get_long().is_none() {
            continue;
        }
        let heading = arg.get_help_heading().unwrap_or("General");
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, args)) => args.push(arg),
            None => groups.push((heading, vec![arg])),
        }
    }
    let mut text = String::new();
    for (heading, args) in groups {
        let _ = write!(text, "### {heading}\n\n| Flag | Default | Meaning |\n|---|---|---|\n");
        for arg in args {
            let _ = writeln!(
                text,
                "| `--{}` | {} | {} |",
                arg.get_long().unwrap_or_default(),
                default_of(arg),
                help_of(arg)
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn default_of(arg: &Arg) -> String {
    let values: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    match values.join(",") {
        joined if joined.is_empty() => "empty".to_owned(),
        joined => format!("`{joined}`"),
    }
}

fn help_of(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    help.map(|text| text.to_string().replace(['\n', '|'], " "))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_two_groups_then_two_tables_in_order_of_definition() {
        let command = Command::new("x")
            .disable_help_flag(true)
            .arg(Arg::new("b").long("b").default_value("1").help("second letter"))
            .arg(Arg::new("a").long("a").help_heading("Other").help("first | letter"))
            .arg(Arg::new("c").long("c").hide(true));
        let expected = "### General\n\n| Flag | Default | Meaning |\n|---|---|---|\n| `--b` | `1` | second letter |\n\n\
                        ### Other\n\n| Flag | Default | Meaning |\n|---|---|---|\n| `--a` | empty | first   letter |";
        assert_eq!(markdown(&command), expected);
    }
}
