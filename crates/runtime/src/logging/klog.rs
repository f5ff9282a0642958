//! The flags every Go component inherits from its logging library. Installed manifests pass some of them.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

const HEADING: &str = "Logging";

/// The klog flags: all are accepted and checked, only `--v` has an effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KlogFlags {
    pub verbosity: i32,
}

enum Kind {
    Bool,
    Number,
    Text,
}

const IGNORED: [(&str, Kind, &str); 12] = [
    ("logtostderr", Kind::Bool, "true"),
    ("alsologtostderr", Kind::Bool, "false"),
    ("vmodule", Kind::Text, ""),
    ("log_dir", Kind::Text, ""),
    ("log_file", Kind::Text, ""),
    ("log_file_max_size", Kind::Number, "1800"),
    ("stderrthreshold", Kind::Text, "2"),
    ("skip_headers", Kind::Bool, "false"),
    ("skip_log_headers", Kind::Bool, "false"),
    ("add_dir_header", Kind::Bool, "false"),
    ("one_output", Kind::Bool, "false"),
    ("log_backtrace_at", Kind::Text, ":0"),
];

impl Args for KlogFlags {
    fn augment_args(command: Command) -> Command {
        let verbosity = Arg::new("v")
            .long("v")
            .short('v')
            .value_name("LEVEL")
            .value_parser(value_parser!(i32))
            .default_value("0")
            .help_heading(HEADING)
            .help(
                "How much to log: 0 to 3 events, 4 decisions, 5 every step, 6 also the client library, 10 everything",
            );
        let ignored = IGNORED.iter().map(|(name, kind, default)| {
            let arg = Arg::new(*name)
                .long(*name)
                .default_value(*default)
                .help_heading(HEADING)
                .help("Accepted and ignored");
            match kind {
                Kind::Bool => arg.value_parser(value_parser!(bool)),
                Kind::Number => arg.value_parser(value_parser!(u64)).value_name("NUMBER"),
                Kind::Text => arg.value_name("TEXT"),
            }
        });
        command.arg(verbosity).args(ignored)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KlogFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            verbosity: matches.get_one("v").copied().unwrap_or_default(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::flags::parse;

    #[derive(Debug, clap::Parser)]
    struct Sample {
        #[command(flatten)]
        klog: super::KlogFlags,
    }

    fn verbosity(args: &[&str]) -> Result<i32, clap::Error> {
        parse::<Sample, _>(["sample"].iter().chain(args)).map(|sample| sample.klog.verbosity)
    }

    #[test]
    fn given_the_flags_of_installed_manifests_then_they_are_accepted() {
        let all = [
            "--logtostderr=true",
            "--alsologtostderr",
            "--v=5",
            "--vmodule=a=1",
            "--log_dir=/x",
            "--log_file=y",
            "--log_file_max_size=1",
            "--stderrthreshold=INFO",
            "--skip_headers",
            "--skip_log_headers=1",
            "--add_dir_header=f",
            "--one_output",
            "--log_backtrace_at=a.go:1",
        ];
        assert_eq!(verbosity(&all).ok(), Some(5));
        assert_eq!(verbosity(&[]).ok(), Some(0));
        assert_eq!(verbosity(&["-v=3"]).ok(), Some(3));
        assert_eq!(verbosity(&["--v", "7"]).ok(), Some(7));
    }

    #[test]
    fn given_a_bad_value_then_it_is_refused_even_where_the_flag_is_ignored() {
        for bad in [
            "--v=loud",
            "--v=4.5",
            "--logtostderr=perhaps",
            "--log_file_max_size=big",
            "--log-dir=/x",
        ] {
            assert!(verbosity(&[bad]).is_err(), "{bad}");
        }
    }
}
