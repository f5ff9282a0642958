//! The command line as people who run Kubernetes components know it.
//!
//! - Flags are long, with two dashes: `--name=value` or `--name value`.
//! - A boolean may stand alone: `--name` means `--name=true`. A value needs the equals sign: in `--name false` the second word is none, and is passed over
//!   with a notice, as Go's flags do without one.
//! - A flag given twice: the last one counts.
//! - Durations are written `15s`, `2m`, `1h30m`, `5ms`.
//! - Addresses are written `:8080`, `localhost:8090`, `[::1]:8080`; `0` or nothing means "do not listen".

mod bind;
mod duration;
mod table;

pub use bind::{Bind, parse_bind};
pub use duration::parse_duration;
pub use table::markdown;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use std::{any::TypeId, ffi::OsString};

/// Reads a command line in the style above.
pub fn parse<T, I>(args: I) -> Result<T, clap::Error>
where
    T: CommandFactory + FromArgMatches,
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    Ok(parse_with_notices(args)?.0)
}

/// Does the same, and returns what the user should know about it.
pub fn parse_with_notices<T, I>(args: I) -> Result<(T, Vec<String>), clap::Error>
where
    T: CommandFactory + FromArgMatches,
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let mut command = command::<T>();
    let (args, notices) = without_stray_booleans(&command, args.into_iter().map(Into::into));
    let matches = command.try_get_matches_from_mut(args)?;
    let parsed = T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((parsed, notices))
}

/// Leaves out the words `true` and `false` after a flag that does not take the next word.
fn without_stray_booleans(command: &Command, args: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let is_boolean = |word: &OsString| {
        let name = word.to_str().and_then(|word| word.strip_prefix("--"));
        let mut flags = command.get_arguments().filter(|arg| arg.get_long() == name);
        name.is_some() && flags.any(clap::Arg::is_require_equals_set)
    };
    let (mut kept, mut notices): (Vec<OsString>, Vec<String>) = (Vec::new(), Vec::new());
    for word in args {
        match kept.last().filter(|last| is_boolean(last)) {
            Some(flag) if word.to_str().is_some_and(|word| parse_bool(word).is_ok()) => {
                let (flag, word) = (flag.to_string_lossy(), word.to_string_lossy());
                notices.push(format!(
                    "{flag} {word}: the value of a boolean needs an equals sign; {word:?} is passed over and {flag} counts as true"
                ));
            }
            _ => kept.push(word),
        }
    }
    (kept, notices)
}

/// Returns the definition of a command line, turned into the style above.
pub fn command<T: CommandFactory>() -> Command {
    T::command().args_override_self(true).mut_args(|arg| {
        let holds = arg.get_value_parser().type_id();
        if holds == TypeId::of::<bool>() {
            boolean(arg)
        } else {
            let number = holds == TypeId::of::<i32>() || holds == TypeId::of::<i64>();
            arg.allow_negative_numbers(number)
        }
    })
}

fn boolean(arg: Arg) -> Arg {
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .value_name("BOOL")
        .value_parser(parse_bool)
}

/// Reads a boolean in all spellings that Kubernetes components accept.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is not a boolean: write true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, clap::Parser)]
    struct Sample {
        #[arg(long, action = ArgAction::Set, default_value_t = true)]
        on: bool,
        #[arg(long, action = ArgAction::Set, default_value_t = false)]
        off: bool,
        #[arg(long, default_value_t = 3)]
        count: i64,
        #[arg(long)]
        many: Vec<String>,
    }

    fn sample(args: &[&str]) -> Result<Sample, clap::Error> {
        parse(["sample"].iter().chain(args))
    }

    #[test]
    fn given_any_go_spelling_then_the_boolean_is_read() {
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(yes), Ok(true), "{yes}");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(no), Ok(false), "{no}");
        }
        for bad in ["", "yes", "tRUE", " true", "2"] {
            assert!(parse_bool(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn given_booleans_alone_or_with_a_value_then_both_are_understood() {
        assert_eq!(sample(&[]).map(|s| (s.on, s.off)).ok(), Some((true, false)));
        assert_eq!(
            sample(&["--on=false", "--off"]).map(|s| (s.on, s.off)).ok(),
            Some((false, true))
        );
        assert_eq!(
            sample(&["--on", "--off=T"]).map(|s| (s.on, s.off)).ok(),
            Some((true, true))
        );
        assert!(sample(&["--on=maybe"]).is_err());
        assert!(sample(&["--on", "maybe"]).is_err());
    }

    #[test]
    fn given_a_boolean_and_its_value_as_two_words_then_the_second_means_nothing_and_that_is_told() {
        let words = [
            "sample", "--on", "false", "--off", "0", "--count", "1", "--many", "true",
        ];
        let (read, notices): (Sample, _) = parse_with_notices(words).expect("valid");
        assert_eq!(
            (read.on, read.off, read.count, read.many),
            (true, true, 1, vec!["true".to_owned()])
        );
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices[0].starts_with("--on false: "), "{notices:?}");
    }

    #[test]
    fn given_a_flag_twice_then_the_last_one_counts() {
        assert_eq!(sample(&["--count=1", "--count", "-2"]).map(|s| s.count).ok(), Some(-2));
        assert_eq!(sample(&["--on", "--on=false"]).map(|s| s.on).ok(), Some(false));
        assert_eq!(
            sample(&["--many=a", "--many=b"]).map(|s| s.many).ok(),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn given_an_unknown_flag_or_a_single_dash_then_it_is_an_error() {
        assert!(sample(&["--no-such-flag"]).is_err());
        assert!(sample(&["-count=1"]).is_err());
        assert!(sample(&["--c_ount=1"]).is_err());
    }
}
