//! The sender as a manager uses it: the library, on a thread with a runtime of its own.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sandgate_benches::failure::{Failure, Result};
use sandgate_peering::{Credentials, PeerAddress, Peers, PushSettings, Pusher, RouteMessage};
use tokio::runtime::Builder;
use tokio::time::Instant;

pub(crate) struct Library(Pusher);

impl Library {
    /// One that pushes to this gateway until it is dropped. Its thread runs where this one does.
    pub(crate) fn start(to: SocketAddr) -> Result<Self> {
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(say.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                let peers = Peers::Static(vec![PeerAddress::at(to, false, None)]);
                let pusher = Pusher::start(PushSettings::default(), peers, &Credentials::default());
                let pusher = match pusher {
                    Ok(pusher) => pusher,
                    Err(error) => return drop(say.send(Err(error.to_string()))),
                };
                pusher.found(Instant::now() + Duration::from_secs(10)).await;
                let _heard = say.send(Ok(pusher));
                std::future::pending::<()>().await;
            });
        });
        match said.recv() {
            Ok(Ok(pusher)) => Ok(Self(pusher)),
            Ok(Err(reason)) => Err(Failure::Asked(format!("the sender: {reason}"))),
            Err(_) => Err(Failure::Asked("the sender has ended".to_owned())),
        }
    }

    pub(crate) fn push(&self, message: &RouteMessage) -> Result<()> {
        let pushed = self.0.push(message);
        pushed.map(drop).map_err(|error| Failure::Asked(error.to_string()))
    }
}
