//! Running other programs so that a failure tells which command failed and what it said.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs to the end and returns what was printed; a non-zero exit is an error that carries the program's own words.
pub fn run(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    if !output.status.success() {
        let words = if output.stderr.trim_ascii().is_empty() {
            &output.stdout
        } else {
            &output.stderr
        };
        bail!(
            "`{}` failed ({}): {}",
            line(command),
            output.status,
            tail(String::from_utf8_lossy(words).trim(), 20)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs and says only whether it succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    capture(command).is_ok_and(|output| output.status.success())
}

fn capture(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", line(command)))
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The last lines of a longer text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Where a program is, looking also where Debian keeps those of root.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether we may make network namespaces, mounts and cgroups.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_failing_command_then_the_error_carries_its_words_and_the_command() {
        let error = run(Command::new("sh").args(["-c", "echo broken pipe fitting >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("broken pipe fitting") && error.contains("sh -c") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn given_a_missing_program_then_the_error_names_it() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err().to_string();
        assert!(error.contains("no-such-program-here"), "{error}");
    }

    #[test]
    fn tail_keeps_the_last_lines() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
