//! The demo: `make demo`. A cluster with our operator, our manager and a gateway on this machine, until
//! Ctrl-C.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::FutureExt as _;
use sandgate_tests::demo::{Demo, Options, teller};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A cluster, a node, our operator, our manager and a gateway on this machine, with sandboxes to try.
///
/// etcd, the API server, the controllers and the scheduler are the real ones. The node runs pods as processes
/// of this machine, each pod on an address of its own in 127.0.0.0/8: nothing is isolated, and nothing is
/// reachable from elsewhere. A SandboxSet `base` keeps sandboxes warm, and a Sandbox `demo` is there to be
/// used.
#[derive(Debug, Parser)]
#[command(
    name = "demo",
    max_term_width = 110,
    after_help = "\
Examples:
  make demo
      Builds what is missing, starts everything, and stays until Ctrl-C.
  make demo ARGS='--port 7788 --warm 5'
      The gateway on a port of your choice, and five warm sandboxes.
  make demo >demo.out &
  until grep -qx ready demo.out; do sleep 1; done
  eval \"$(grep '^export ' demo.out)\"
      For a script. Then kubectl, $SANDGATE_GATEWAY, $SANDGATE_ADMIN and what E2B's SDKs need are there.

Standard output has a curl line, three lines for E2B's SDK with an API key, `export` lines for a shell, and last the line `ready`. What is being \
done meanwhile goes to standard error.

Ctrl-C and SIGTERM end everything: no process, no file and no port is left."
)]
struct Arguments {
    /// The port of the gateway, on 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The port of the gateway's admin pages, on 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = 0)]
    admin_port: u16,
    /// The port of the manager's API, on 127.0.0.1; 0 for one on an address of its own
    #[arg(long, default_value_t = 0)]
    api_port: u16,
    /// How many sandboxes the set `base` keeps warm
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    warm: u32,
    /// How many nodes there are
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10))]
    nodes: u16,
}

/// How often the parts are looked at while the demo runs.
const LOOK: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { port, admin_port, api_port, warm, nodes } = arguments;
    let options = Options { port, admin_port, api_port, warm, nodes };
    // Handled until the very end: a second Ctrl-C does not cut short what the first one has begun.
    let signal = |kind| signal(kind).expect("listen for signals");
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    // For people: what is wrong, and not where in this program it was seen.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("demo: {}", panic.payload_as_str().unwrap_or("something went wrong"));
    }));
    // A part that does not start fails by a panic, as in a scenario: what runs already ends on the way out.
    match AssertUnwindSafe(run(options, &mut signals)).catch_unwind().await {
        Ok(()) => {
            eprintln!("demo: everything has ended");
            ExitCode::SUCCESS
        }
        Err(_) => {
            eprintln!("demo: failed; everything has ended");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options, signals: &mut [Signal; 3]) {
    let told = teller();
    let mut demo = tokio::select! {
        demo = Demo::start(options, &told) => demo,
        () = asked(signals) => {
            told("ends, before it was ready");
            return;
        }
    };
    told("ready; Ctrl-C ends everything");
    let mut out = std::io::stdout();
    let written = out.write_all(format!("{}ready\n", demo.text()).as_bytes()).and_then(|()| out.flush());
    // Nobody reads it, which is no reason to end.
    drop(written);
    let mut looks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = looks.tick() => demo.assert_alive(),
            () = asked(signals) => break,
        }
    }
    told("ends");
}

/// Returns when somebody wants the end.
async fn asked(signals: &mut [Signal; 3]) {
    let [interrupt, terminate, hangup] = signals;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
