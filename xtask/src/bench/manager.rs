//! A manager as a process of this machine.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::program::Program;
use crate::loopback::{free_ports, get};

/// How the API server finds the webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Webhooks {
    /// By address: one manager, which is really asked.
    Address,
    /// Through the Service, as in a cluster: several managers side by side, which nobody can ask here.
    Service,
}

/// A running manager; it ends with this value.
pub(super) struct Manager {
    program: Program,
    pub(super) webhook_port: u16,
    health_port: u16,
}

impl Manager {
    pub(super) fn start(program: &Path, kubeconfig: &Path, webhooks: Webhooks, flags: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let [webhook_port, health_port, metrics_port] = free_ports()?;
        let mut command = Command::new(program);
        command
            .args([
                format!("--health-probe-addr=127.0.0.1:{health_port}"),
                format!("--metrics-addr=127.0.0.1:{metrics_port}"),
                "--enable-pprof=false".to_owned(),
                format!("--protection-log-path={}", folder.path().display()),
            ])
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .env("WEBHOOK_PORT", webhook_port.to_string())
            .env("WEBHOOK_CERT_DIR", folder.path().join("certs"))
            .env_remove("WEBHOOK_HOST");
        if webhooks == Webhooks::Address {
            command
                .env("WEBHOOK_HOST", "127.0.0.1")
                .env("WEBHOOK_CERT_WRITER", "secret");
        }
        Ok(Self {
            program: Program::start(&mut command, folder, metrics_port)?,
            webhook_port,
            health_port,
        })
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.file("certs/ca-cert.pem")
    }

    /// Waits until it says that it is ready.
    pub(super) fn ready(&mut self) -> Result<()> {
        let health = format!("http://127.0.0.1:{}/readyz", self.health_port);
        self.until("ready", || get(&health).is_some())
    }
}

impl Deref for Manager {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl DerefMut for Manager {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.program
    }
}
