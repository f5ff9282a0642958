//! One `--<controller>-workers` flag per controller that has one, made from the descriptors.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use kruise_admission::descriptor::{Controller, controllers};
use std::collections::BTreeMap;

/// How many objects each controller works on at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workers(BTreeMap<&'static str, i64>);

impl Workers {
    /// The workers of a controller; a flag of 0 or less means one, as it does in the original.
    pub fn of(&self, controller: &Controller) -> usize {
        let asked = self.0.get(controller.name).copied().unwrap_or(controller.workers);
        usize::try_from(asked).unwrap_or(0).max(1)
    }
}

fn with_flag() -> impl Iterator<Item = (&'static Controller, &'static str)> {
    controllers().filter_map(|controller| controller.workers_flag.map(|flag| (controller, flag)))
}

impl Args for Workers {
    fn augment_args(command: Command) -> Command {
        command.args(with_flag().map(|(controller, flag)| {
            Arg::new(flag)
                .long(flag)
                .value_name("NUMBER")
                .value_parser(value_parser!(i64))
                .default_value(controller.workers.to_string())
                .help_heading("Workers")
                .help(format!("Objects that {} works on at once", controller.name))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Workers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let asked = with_flag().filter_map(|(controller, flag)| Some((controller.name, *matches.get_one(flag)?)));
        Ok(Self(asked.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;
    use kruise_api::names::component::controller;
    use kruise_runtime::flags::parse;

    fn workers(args: &[&str], name: &str) -> usize {
        let flags: Flags = parse(["manager"].iter().chain(args)).expect("valid");
        let controller = controllers().find(|controller| controller.name == name).expect(name);
        flags.workers.of(controller)
    }

    #[test]
    fn given_a_flag_then_only_that_controller_changes() {
        let args = ["--cloneset-workers=20", "--crr-workers", "7"];
        assert_eq!(workers(&args, controller::CLONE_SET), 20);
        assert_eq!(workers(&args, controller::CONTAINER_RECREATE_REQUEST), 7);
        assert_eq!(workers(&args, controller::STATEFUL_SET), 3);
        assert_eq!(workers(&args, controller::EPHEMERAL_JOB), 10);
    }

    #[test]
    fn given_nothing_to_work_with_then_one_worker_is_left() {
        assert_eq!(workers(&["--cloneset-workers=0"], controller::CLONE_SET), 1);
        assert_eq!(workers(&["--cloneset-workers=-5"], controller::CLONE_SET), 1);
    }
}
