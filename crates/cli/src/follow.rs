//! Making an object and following it until it is done.

use crate::{args::Connection, text::visible};
use anyhow::{Context as _, Result, anyhow, bail};
use kruise_api::kind::WholeKind;
use kube::{Api, Client, ResourceExt as _, api::PostParams, core::NamespaceResourceScope};
use std::{
    fmt::Debug,
    io::{self, Write as _},
    time::Duration,
};
use tokio::time::timeout;

/// How often it is asked how far the object is.
const EVERY: Duration = Duration::from_millis(500);
/// Questions in a row that may stay without an answer.
const PATIENCE: u32 = 20;

/// An object that was made, and the way to it.
pub(crate) struct Followed<K> {
    api: Api<K>,
    name: String,
    deadline: Duration,
}

/// How far an object is.
pub(crate) struct Progress {
    /// For people; shown when it is another than before.
    pub(crate) line: String,
    /// Whether it is done.
    pub(crate) is_done: bool,
}

impl<K> Followed<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + WholeKind + Clone + Debug,
{
    /// Makes the object. What the API server has against it is the best text a user can get.
    pub(crate) async fn make(client: &Client, namespace: &str, object: &K, connection: &Connection) -> Result<Self> {
        let api: Api<K> = Api::namespaced(client.clone(), namespace);
        let params = PostParams {
            field_manager: Some("kubectl-kruise".to_owned()),
            ..PostParams::default()
        };
        let made = timeout(connection.request_timeout, api.create(&params, object)).await;
        let made =
            made.map_err(|_| anyhow!("the API server does not answer within {:?}", connection.request_timeout))?;
        let made = match made {
            Ok(made) => made,
            Err(kube::Error::Api(status))
                if status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty()) =>
            {
                bail!(
                    "the cluster does not know {}s: OpenKruise is not installed there",
                    K::KIND
                )
            }
            Err(kube::Error::Api(status)) => bail!("{}", status.message),
            Err(error) => return Err(error).context("the API server cannot be asked"),
        };
        let name = made.name_any();
        say(&format!("{} {namespace}/{name} created", K::KIND))?;
        Ok(Self {
            api,
            name,
            deadline: connection.request_timeout,
        })
    }

    /// Tells each change until the object is done, and returns it then.
    pub(crate) async fn until_done(&self, progress: impl Fn(&K) -> Progress) -> Result<K> {
        let (mut shown, mut unanswered) = (String::new(), 0);
        loop {
            match timeout(self.deadline, self.api.get(&self.name)).await {
                Ok(Ok(object)) => {
                    unanswered = 0;
                    let now = progress(&object);
                    if !now.line.is_empty() && now.line != shown {
                        say(&now.line)?;
                        shown = now.line;
                    }
                    if now.is_done {
                        return Ok(object);
                    }
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    bail!("{} {} was deleted before it was done", K::KIND, self.name)
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => bail!("{}", status.message),
                Ok(Err(error)) if unanswered >= PATIENCE => {
                    return Err(error).context("the API server cannot be asked");
                }
                Err(_) if unanswered >= PATIENCE => bail!("the API server does not answer"),
                _ => unanswered += 1,
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// A line for the user, at once. Control characters are shown instead of sent.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{}", visible(line)).and_then(|()| out.flush());
    match written {
        // Whoever reads has seen enough; what was begun goes on in the cluster.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// A time in whole seconds, rounded up.
pub(crate) fn seconds(time: Duration) -> i64 {
    let more = i64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX).saturating_add(more)
}
