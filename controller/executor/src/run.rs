//! The composition root: the thread of the tasks, the server, and the signals.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::actor;
use crate::api::{self, Tokens};
use crate::args::Args;
use crate::manager::Settings;
use crate::store::StoreError;

/// How long a process may take after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How long requests under way may take once the executor shall end.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// Why the executor did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of `--listen-addr`.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The file of the tokens.
    #[error("--token-file {path}: {source}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The signals of the process cannot be had.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// The thread of the tasks has ended.
    #[error("the thread of the tasks has ended, which must not happen; see the log")]
    Ended,
}

/// Answers requests until SIGTERM or SIGINT.
///
/// # Errors
/// See [`RunError`].
pub async fn run(args: Args) -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let mut child = signal(SignalKind::child()).map_err(RunError::Signals)?;
    let tokens = args.token_file().map(|path| {
        let tokens = Tokens::new(path.clone());
        tokens.check().map(|()| tokens).map_err(|source| RunError::Token { path, source })
    });
    let tokens = tokens.transpose()?;
    let refused = |source| RunError::Listen { address: args.listen_addr.clone(), source };
    let listener = listen(&args.listen_addr, TcpListener::bind).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    // Only who has the port touches the tasks: two executors of one pod would have the same data folder.
    let settings = Settings {
        data_dir: PathBuf::from(&args.data_dir),
        main_container: args.main_container(),
        grace: grace(),
    };
    let (tasks, thread) = actor::start(settings)?;
    if let Some(name) = args.main_container() {
        tracing::info!("tasks run in the main container, {name}");
    }
    if tokens.is_none() {
        tracing::info!("no --token-file: whoever reaches the port may run tasks");
    }
    tracing::info!("listening on {address}");
    let (stop, stopped) = watch::channel(false);
    let server = tokio::spawn(api::serve(listener, tasks.clone(), tokens, stopped));
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = child.recv() => tasks.look().map_err(|_| RunError::Ended)?,
        }
        if thread.is_finished() {
            return Err(RunError::Ended);
        }
    }
    tracing::info!("stopping; tasks run on");
    let _ = stop.send(true);
    if tokio::time::timeout(SHUTDOWN, server).await.is_err() {
        tracing::warn!("some requests were not answered");
    }
    Ok(())
}

/// Binds this address. Without an IP it is every address of both versions, or of IPv4 where there is no IPv6.
async fn listen<T>(address: &str, bind: impl AsyncFn(String) -> io::Result<T>) -> io::Result<T> {
    if !address.starts_with(':') {
        return bind(address.to_owned()).await;
    }
    match bind(format!("[::]{address}")).await {
        Err(error) if has_no_ipv6(&error) => bind(format!("0.0.0.0{address}")).await,
        bound => bound,
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Ten seconds, as OpenSandbox's executor gives. A test build can be given less.
fn grace() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(millis) = std::env::var("SANDGATE_GRACE_MILLIS").ok().and_then(|text| text.parse().ok()) {
        return Duration::from_millis(millis);
    }
    GRACE
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::listen;

    /// What is bound in the end, where binding IPv6 ends so.
    async fn bound(address: &str, ipv6: Result<(), Errno>) -> io::Result<String> {
        listen(address, async |address: String| {
            if address.starts_with('[') {
                ipv6?;
            }
            Ok(address)
        })
        .await
    }

    #[tokio::test]
    async fn a_port_alone_is_every_address_also_where_there_is_no_ipv6() {
        assert_eq!(bound(":5758", Ok(())).await.unwrap(), "[::]:5758");
        for without in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            assert_eq!(bound(":5758", Err(without)).await.unwrap(), "0.0.0.0:5758");
        }
    }

    #[tokio::test]
    async fn a_port_that_another_process_has_is_not_had_by_half() {
        let error = bound(":5758", Err(Errno::ADDRINUSE)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn an_address_that_is_given_is_no_other() {
        assert_eq!(bound("127.0.0.1:1", Ok(())).await.unwrap(), "127.0.0.1:1");
        assert!(bound("[::]:1", Err(Errno::AFNOSUPPORT)).await.is_err());
    }
}
