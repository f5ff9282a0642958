//! A platform for tests.

use std::sync::Arc;

use kruise_admission::descriptor;
use kruise_runtime::{admin::Plans, client::ServerVersion, flags::parse, lease::Leadership, writer::WriterMetrics};
use kube::{Client, Config};
use prometheus::Registry;
use tokio::net::TcpListener;

use super::{ControllerContext, Platform};
use crate::Settings;

/// A client of an API server that never answers. Keep the listener: it is that server.
pub(crate) async fn unanswered() -> (TcpListener, Client) {
    // Whoever connects is never accepted.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    let config = Config::new(format!("http://{address}").parse().expect("an address"));
    (silent, Client::try_from(config).expect("a client"))
}

/// A platform with these flags.
pub(crate) fn platform(client: Client, flags: &[&str]) -> Platform {
    let flags = [&["manager"][..], flags].concat();
    let flags = parse(flags.into_iter().map(str::to_owned)).expect("flags");
    let settings = Settings::read(flags, |_| None).expect("settings");
    let registry = Registry::new();
    let writes = WriterMetrics::new(&registry).expect("metrics");
    let (version, always) = (ServerVersion::parse("1.34.4"), Leadership::always());
    let built = Platform::new(
        &Arc::new(settings),
        client,
        version,
        Plans::default(),
        always,
        &writes,
        &registry,
    );
    built.expect("a platform").0
}

impl Platform {
    /// What the controller of this name works with.
    pub(crate) fn context_of(&self, name: &str) -> Arc<ControllerContext> {
        let described = descriptor::controllers().find(|known| known.name == name);
        Arc::new(self.context(described.expect("known")))
    }
}
