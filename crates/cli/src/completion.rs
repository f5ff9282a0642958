//! `kubectl kruise completion`, and what a shell asks for when the tab key is pressed.
//!
//! The scripts know nothing of commands: they ask the plugin, `kubectl-kruise __complete WORDS…`, whose answer follows the command line as it is. kubectl asks in the same way for
//! `kubectl kruise`, through an executable `kubectl_complete-kruise`. The answer is a candidate per line and a last line for cobra, which is what kubectl is made with.
//!
//! Candidates are commands, flags, values of flags, kinds, and names of objects as far as the API server says them within two seconds.

use crate::{
    args::{Args, Connection},
    kinds::{self, Kind},
    server::Server,
};
use anyhow::Result;
use clap::{Arg, Command, CommandFactory as _, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// The word that shells ask with; it is no command of the command line.
pub(crate) const ASK: &str = "__complete";
/// cobra: files are no candidates.
const NO_FILES: &str = ":4";
const FILES: &str = ":0";
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  source <(kubectl kruise completion bash)\n  kubectl kruise completion fish | source\n\n\
                  For `kubectl kruise`, put an executable kubectl_complete-kruise into your PATH:\n  #!/bin/sh\n  exec kubectl-kruise __complete \"$@\""
)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        Shell::Powershell => POWERSHELL,
    }
}

const BASH: &str = r#"_kubectl_kruise() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :*) [ "$line" = ":0" ] && compopt -o default ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(kubectl-kruise __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [ "${#COMPREPLY[@]}" -eq 1 ] && [ "${COMPREPLY[0]: -1}" = "/" ] && compopt -o nospace
}
complete -F _kubectl_kruise kubectl-kruise
"#;

const ZSH: &str = r#"#compdef kubectl-kruise
_kubectl_kruise() {
    local line
    local -a candidates
    while IFS= read -r line; do
        case "$line" in
            :0) _files ;;
            :*) ;;
            *) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done < <(kubectl-kruise __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)
    _describe 'kubectl-kruise' candidates
}
compdef _kubectl_kruise kubectl-kruise
"#;

const FISH: &str = r"function __kubectl_kruise
    set -l words (commandline -opc) (commandline -ct)
    kubectl-kruise __complete $words[2..-1] 2>/dev/null | string match -v ':*'
end
complete -c kubectl-kruise -f -a '(__kubectl_kruise)'
";

const POWERSHELL: &str = r"Register-ArgumentCompleter -Native -CommandName kubectl-kruise -ScriptBlock {
    param($word, $ast, $position)
    $words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($word -eq '') { $words += '' }
    kubectl-kruise __complete @words 2>$null | Where-Object { -not $_.StartsWith(':') } | ForEach-Object {
        $value, $help = $_ -split [char]9, 2
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $(if ($help) { $help } else { $value }))
    }
}
";

/// Answers a shell. Whatever goes wrong, there is an answer.
pub(crate) async fn answer(words: &[String]) -> String {
    let wanted = wanted(&Args::command(), words);
    let (candidates, end) = match wanted {
        Wanted::Known(candidates) => (candidates, NO_FILES),
        Wanted::Files => (Vec::new(), FILES),
        Wanted::Names { kind, start, prefix } => {
            let names = names(kind, connection(words)).await.unwrap_or_default();
            let fits = names.into_iter().filter(|name| name.starts_with(&start));
            (
                fits.map(|name| (format!("{prefix}{name}"), String::new())).collect(),
                NO_FILES,
            )
        }
    };
    let mut text = String::new();
    for (word, help) in candidates {
        text.push_str(&if help.is_empty() {
            word
        } else {
            format!("{word}\t{help}")
        });
        text.push('\n');
    }
    text + end + "\n"
}

/// What may follow.
#[derive(Debug, PartialEq)]
enum Wanted {
    /// Words with their meaning.
    Known(Vec<(String, String)>),
    Files,
    /// Objects of a kind.
    Names {
        kind: Kind,
        /// What is typed of the name.
        start: String,
        /// What comes before it in the same word.
        prefix: String,
    },
}

fn wanted(root: &Command, words: &[String]) -> Wanted {
    let mut command = root.clone();
    command.build();
    let Some((typed, before)) = words.split_last() else {
        return Wanted::Known(commands(&command, ""));
    };
    let (mut positionals, mut value_of) = (Vec::new(), None);
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if let Some(flag) = flag(&command, word) {
            let takes = flag.get_action().takes_values() && !flag.is_require_equals_set();
            value_of = (takes && !word.contains('=')).then(|| flag.clone());
        } else if let Some(next) = command.find_subcommand(word) {
            command = next.clone();
        } else {
            positionals.push(word.as_str());
        }
    }
    if let Some(flag) = value_of {
        return of_flag(&flag, typed, "");
    }
    if let Some((name, start)) = typed.split_once('=')
        && let Some(flag) = flag(&command, name)
    {
        return of_flag(flag, start, &format!("{name}="));
    }
    if typed.starts_with('-') {
        return Wanted::Known(flags(&command, typed));
    }
    if command.has_subcommands() {
        return Wanted::Known(commands(&command, typed));
    }
    of_object(&command, &positionals, typed)
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let word = word.split('=').next().unwrap_or_default();
    let long = word.strip_prefix("--").filter(|long| !long.is_empty());
    let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
    let short = letters.next().filter(|_| long.is_none() && letters.next().is_none());
    command.get_arguments().find(|arg| {
        long.is_some_and(|long| arg.get_long() == Some(long)) || short.is_some() && arg.get_short() == short
    })
}

/// Values of a flag, as far as they are known.
fn of_flag(flag: &Arg, start: &str, prefix: &str) -> Wanted {
    let values = flag.get_possible_values();
    if values.is_empty() {
        return Wanted::Files;
    }
    let values = values.iter().map(|value| value.get_name().to_owned());
    let fits = values.filter(|value| value.starts_with(start));
    Wanted::Known(fits.map(|value| (format!("{prefix}{value}"), String::new())).collect())
}

fn commands(command: &Command, start: &str) -> Vec<(String, String)> {
    let all = command.get_subcommands().filter(|command| !command.is_hide_set());
    let fits = all.filter(|command| command.get_name().starts_with(start));
    fits.map(|command| (command.get_name().to_owned(), help(command.get_about())))
        .collect()
}

fn flags(command: &Command, start: &str) -> Vec<(String, String)> {
    let all = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let named = all.filter_map(|arg| Some((format!("--{}", arg.get_long()?), help(arg.get_help()))));
    named.filter(|(name, _)| name.starts_with(start)).collect()
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Kinds, or names of one.
fn of_object(command: &Command, positionals: &[&str], typed: &str) -> Wanted {
    let takes_objects = |arg: &Arg| matches!(arg.get_id().as_str(), "words" | "object");
    if let Some(shells) = command
        .get_positionals()
        .find(|arg| !arg.get_possible_values().is_empty())
    {
        return of_flag(shells, typed, "");
    }
    if !command.get_positionals().any(takes_objects) {
        return Wanted::Files;
    }
    if let Some((word, start)) = typed.split_once('/')
        && let Ok((kind, _)) = kinds::resolve(word)
    {
        return Wanted::Names {
            kind,
            start: start.to_owned(),
            prefix: format!("{word}/"),
        };
    }
    if let Some(first) = positionals.first().filter(|first| !first.contains('/'))
        && let Ok((kind, _)) = kinds::resolve(first)
    {
        return Wanted::Names {
            kind,
            start: typed.to_owned(),
            prefix: String::new(),
        };
    }
    let words = kinds::words().into_iter().filter(|word| word.starts_with(typed));
    let ending = if positionals.is_empty() { "" } else { "/" };
    Wanted::Known(words.map(|word| (format!("{word}{ending}"), String::new())).collect())
}

/// The flags that say which cluster and namespace are meant.
fn connection(words: &[String]) -> Connection {
    let mut connection = Connection {
        request_timeout: PATIENCE,
        ..Connection::default()
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if !matches!(
            name,
            "-n" | "--namespace" | "--context" | "--cluster" | "--user" | "--kubeconfig"
        ) {
            continue;
        }
        let value = value.or_else(|| words.next().cloned());
        match name {
            "-n" | "--namespace" => connection.namespace = value,
            "--context" => connection.context = value,
            "--cluster" => connection.cluster = value,
            "--user" => connection.user = value,
            _ => connection.kubeconfig = value.map(PathBuf::from),
        }
    }
    connection
}

async fn names(kind: Kind, connection: Connection) -> Result<Vec<String>> {
    let server = Server::connect(&connection).await?;
    let listed = server.list(kind, None, Some(&server.namespace), None).await?;
    let names = listed.unwrap_or_default();
    let plain = |name: &&str| !name.chars().any(char::is_control);
    let names = names.iter().map(crate::server::Object::name).filter(plain);
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match wanted(&Args::command(), &words) {
            Wanted::Known(all) => all.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn named(words: &[&str]) -> (String, String, String) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match wanted(&Args::command(), &words) {
            Wanted::Names { kind, start, prefix } => (kind.full(), start, prefix),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_and_flags_follow_the_command_line() {
        assert!(known(&[]).contains(&"rollout".to_owned()));
        assert_eq!(known(&["pro"]), ["promote"]);
        assert_eq!(known(&["-n", "shop", "pro"]), ["promote"]);
        assert_eq!(known(&["rollout", "re"]), ["resume", "restart"]);
        assert_eq!(known(&["rollout", "status", "--time"]), ["--timeout"]);
        assert!(known(&["get", "--name"]).contains(&"--namespace".to_owned()));
        assert_eq!(known(&["get", "-o", "y"]), ["yaml"]);
        assert_eq!(known(&["get", "--output=y"]), ["--output=yaml"]);
        assert_eq!(known(&["promote", "--dry-run=s"]), ["--dry-run=server"]);
        assert_eq!(known(&["completion", "f"]), ["fish"]);
    }

    #[test]
    fn kinds_and_names_follow_commands() {
        assert_eq!(known(&["get", "clone"]), ["cloneset"]);
        assert_eq!(known(&["get", "clone/a", "clone"]), ["cloneset/"]);
        let cloneset = |start: &str, prefix: &str| {
            (
                "CloneSet.apps.kruise.io".to_owned(),
                start.to_owned(),
                prefix.to_owned(),
            )
        };
        assert_eq!(named(&["rollout", "undo", "clone/w"]), cloneset("w", "clone/"));
        assert_eq!(named(&["get", "clone", "w"]), cloneset("w", ""));
        assert_eq!(named(&["explain", "clone", "--manager", "x", ""]), cloneset("", ""));
        let files: Vec<String> = ["sidecar", "plan", "-f", ""].map(str::to_owned).to_vec();
        assert_eq!(wanted(&Args::command(), &files), Wanted::Files);
    }

    #[test]
    fn the_cluster_is_the_one_that_is_meant() {
        let words: Vec<String> = ["get", "-n", "shop", "--context=c", "clone", ""]
            .map(str::to_owned)
            .to_vec();
        let connection = connection(&words);
        assert_eq!(
            (connection.namespace.as_deref(), connection.context.as_deref()),
            (Some("shop"), Some("c"))
        );
    }

    #[test]
    fn every_shell_asks_the_plugin() {
        for shell in Shell::value_variants() {
            assert!(script(*shell).contains("kubectl-kruise __complete"), "{shell:?}");
        }
    }
}
