//! Programs that come from the distribution: taken from the PATH, or installed with apt when that is allowed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::progress::Progress;
use crate::shell;

/// A program and the Debian package that brings it.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    pub package: &'static str,
}

/// What a control plane needs beside Kubernetes itself.
pub const CONTROL_PLANE: &[Program] = &[Program {
    name: "etcd",
    package: "etcd-server",
}];

/// What real nodes need on top of it.
pub const NODES: &[Program] = &[
    Program {
        name: "containerd",
        package: "containerd",
    },
    Program {
        name: "runc",
        package: "runc",
    },
    Program {
        name: "docker-registry",
        package: "docker-registry",
    },
    Program {
        name: "busybox",
        package: "busybox-static",
    },
    Program {
        name: "ip",
        package: "iproute2",
    },
    Program {
        name: "nsenter",
        package: "util-linux",
    },
    Program {
        name: "unshare",
        package: "util-linux",
    },
    Program {
        name: "mount",
        package: "mount",
    },
];

const CNI_PACKAGE: &str = "containernetworking-plugins";

/// Whether missing programs may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    Allowed,
    Refused,
}

/// The packages whose programs are not there.
pub fn missing(programs: &[Program], with_cni: bool) -> Vec<&'static str> {
    let mut missing: Vec<&str> = programs
        .iter()
        .filter(|program| shell::find(program.name).is_none())
        .map(|program| program.package)
        .collect();
    if with_cni && cni_folder().is_none() {
        missing.push(CNI_PACKAGE);
    }
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Why missing packages cannot be installed by us, with the command for those who can; none when they can.
pub fn obstacle(missing: &[&str], install: Install) -> Option<String> {
    let why = match install {
        _ if missing.is_empty() => return None,
        Install::Refused => "--no-install forbids to install them",
        Install::Allowed if !shell::is_root() || shell::find("apt-get").is_none() => {
            "installing them needs root and apt"
        }
        Install::Allowed => return None,
    };
    let by_hand = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    Some(format!(
        "these Debian packages are missing and {why}: run `{by_hand}`, or put their programs on the PATH"
    ))
}

/// Makes sure that every program is there; installs what is missing when allowed, and says so.
pub fn ensure(programs: &[Program], with_cni: bool, install: Install, progress: &Progress) -> Result<()> {
    let missing = missing(programs, with_cni);
    if missing.is_empty() {
        return Ok(());
    }
    if let Some(obstacle) = obstacle(&missing, install) {
        bail!(obstacle);
    }
    progress.step(&format!("Installing with apt: {}", missing.join(", ")), |_| {
        apt(&missing)
    })
}

/// Where the CNI plugins are.
pub fn cni_folder() -> Option<PathBuf> {
    ["/usr/lib/cni", "/opt/cni/bin"]
        .map(PathBuf::from)
        .into_iter()
        .find(|folder| folder.join("bridge").is_file())
}

/// Installs without letting the packages start their services: a containerd or etcd of ours is started by us alone.
fn apt(packages: &[&str]) -> Result<()> {
    let policy = Path::new("/usr/sbin/policy-rc.d");
    let ours = !policy.exists();
    if ours {
        std::fs::write(policy, "#!/bin/sh\nexit 101\n")?;
        shell::run(Command::new("chmod").arg("755").arg(policy))?;
    }
    let hint = "apt could not install what the cluster needs; is the package registry reachable?";
    let result = shell::run(Command::new("apt-get").args(["update", "-q"]))
        .context(hint)
        .and_then(|_| {
            let mut install = Command::new("apt-get");
            install
                .args(["install", "-q", "-y", "--no-install-recommends"])
                .args(packages)
                .env("DEBIAN_FRONTEND", "noninteractive");
            shell::run(&mut install).context(hint)
        });
    if ours {
        std::fs::remove_file(policy)?;
    }
    result.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_no_install_when_a_program_is_missing_then_the_message_is_the_command_to_type() {
        let missing = [Program {
            name: "no-such-program-here",
            package: "some-package",
        }];
        let error = ensure(&missing, false, Install::Refused, &Progress::quiet())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("apt-get install --no-install-recommends some-package"),
            "{error}"
        );
    }

    #[test]
    fn given_all_programs_then_nothing_is_done() {
        ensure(
            &[Program {
                name: "sh",
                package: "dash",
            }],
            false,
            Install::Refused,
            &Progress::quiet(),
        )
        .unwrap();
    }
}
