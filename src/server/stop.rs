//! How a server stops, in bounded time whatever its shards and handlers do.

use std::time::Duration;

use super::Server;

/// How long sessions have to answer the evals that they abort when the server stops.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// How long sessions have to be stored when the server stops; those that were idle are stored already.
const STORE_MAX: Duration = Duration::from_secs(5);

/// How long connections have to close after that; then the same for the processes of bindings and the audit log.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How often a server that stops checks whether its evals are over.
const IDLE_LOOK_EVERY: Duration = Duration::from_millis(20);

impl Server {
    /// Stops: no new sessions, running evals get `drain_max` to finish, connections are closed. Returns within
    /// `drain_max` and five seconds, or eleven with a state folder, whatever a shard or a handler does.
    pub async fn stop(&self, drain_max: Duration) {
        self.state.directory.drain();
        // A session on a stuck shard does not report whether it is idle.
        let _ = tokio::time::timeout(drain_max, self.wait_until_idle()).await;
        // Sessions answer what they abort, and close their connections themselves; the rest is closed here.
        let ended = async {
            self.state.directory.end_all().await;
            self.state.tasks.close();
            self.state.tasks.wait().await;
        };
        let _ = tokio::time::timeout(self.last_answers_max(), ended).await;
        self.state.tasks.close();
        self.state.stop.cancel();
        let _ = tokio::time::timeout(CLOSE_MAX, self.state.tasks.wait()).await;
        let _ = tokio::time::timeout(CLOSE_MAX, self.state.directory.close_store()).await;
        let audit = self.state.directory.audit();
        let last = async { tokio::join!(self.state.additions.stop_commands(), audit.sync()) };
        let _ = tokio::time::timeout(CLOSE_MAX, last).await;
    }

    /// What sessions get to answer or to be stored.
    fn last_answers_max(&self) -> Duration {
        if self.state.directory.stored_bytes().is_some() { STORE_MAX } else { LAST_ANSWERS_MAX }
    }

    async fn wait_until_idle(&self) {
        while !self.state.directory.is_idle().await {
            tokio::time::sleep(IDLE_LOOK_EVERY).await;
        }
    }
}
