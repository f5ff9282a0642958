//! Where figures were taken.

use std::fs;
use std::process::Command;

use kruise_testkit::kubernetes::DEFAULT_VERSION;
use kruise_testkit::shell;

use super::score::Machine;

pub(super) fn describe() -> Machine {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_matches(['\t', ' ', ':', '=', '"']).to_owned())
            .unwrap_or_default()
    };
    let kilobytes: u64 = field("/proc/meminfo", "MemTotal")
        .trim_end_matches(" kB")
        .parse()
        .unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let etcd = shell::find("etcd").and_then(|etcd| shell::run(Command::new(etcd).arg("--version")).ok());
    let etcd = etcd.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    Machine {
        processor: field("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        memory: format!("{} GiB", (kilobytes + 512 * 1024) / 1024 / 1024),
        system: format!("{}, Linux {}", field("/etc/os-release", "PRETTY_NAME"), kernel.trim()),
        kubernetes: DEFAULT_VERSION.to_owned(),
        etcd: etcd.trim_start_matches("etcd Version: ").to_owned(),
    }
}

/// The commit that is measured; one that has been changed since says so.
pub(super) fn commit() -> String {
    let git = |args: &[&str]| shell::run(Command::new("git").args(args).current_dir(crate::root())).unwrap_or_default();
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = if git(&["status", "--porcelain", "--untracked-files=no"])
        .trim()
        .is_empty()
    {
        ""
    } else {
        " and changes"
    };
    format!("{}{changed}", commit.trim())
}
