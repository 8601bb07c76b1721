//! Ctrl-C: once to finish what is in flight, twice to stop now.

use std::sync::Arc;

use super::talk;
use crate::apply::StopSignal;

/// Listens from now on. On a thread of its own, because with the simulator the walk never waits.
pub fn listen() -> Arc<StopSignal> {
    let stop = Arc::new(StopSignal::default());
    let heard = Arc::clone(&stop);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without a listener Ctrl-C kills, which the next run understands as well.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                let again = heard.is_asked();
                // Said before it is done, or what the other thread says about the end would stand above it.
                talk(if again {
                    "Stopping now. What is in flight stays as it is; the next run understands it."
                } else {
                    "Finishing the steps in flight, then stopping. Press Ctrl-C again to stop now."
                });
                heard.press();
            }
        });
    });
    stop
}

/// Waits for Ctrl-C, or for whoever ends services.
pub async fn asked() {
    let interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    #[cfg(unix)]
    if let Ok(mut ended) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        futures_util::future::select(interrupted, std::pin::pin!(ended.recv())).await;
        return;
    }
    let _ = interrupted.await;
}
