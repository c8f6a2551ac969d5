//! The soaks: `make soak`, an hour of a gateway unless MINUTES says otherwise, and `make soak-operator`, ten
//! minutes of the operator. Ends with 1 when something grows or does not return.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sandgate_tests::soak::operator::{OPERATOR_COLUMNS, OperatorSoak};
use sandgate_tests::soak::{COLUMNS, Load, Soak, Span, verdict, watch};

/// A gateway, or the operator, under everything that happens to one; samples what it uses, and says whether
/// something grows.
#[derive(Debug, Parser)]
struct Arguments {
    /// The operator instead of a gateway.
    #[arg(long)]
    operator: bool,
    /// How long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// How long from the beginning is not judged. Default: a third, ten minutes at the most.
    #[arg(long)]
    warm_up: Option<f64>,
    /// Seconds between two samples: not in step with the lives of the sandboxes, which take five.
    #[arg(long, default_value_t = 4.7)]
    every: f64,
    /// What all rates are multiplied with.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// How long a gateway remembers a deleted route, in seconds.
    #[arg(long, default_value_t = 30)]
    tombstone_lifetime: u64,
    /// Where the samples go, as TSV.
    #[arg(long, default_value = "soak.tsv")]
    out: PathBuf,
}

impl Arguments {
    fn span(&self) -> Span {
        let minutes = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
        let warm_up = self.warm_up.unwrap_or((self.minutes / 3.0).min(10.0));
        Span {
            long: minutes(self.minutes),
            warm_up: minutes(warm_up),
            every: Duration::from_secs_f64(self.every),
        }
    }
}

/// The clusters are replaced every so many samples.
const REPLACED: usize = 6;
/// Of so many samples (the last number) a node is lost after the first and back after the second.
const LOST: (usize, usize, usize) = (12, 16, 24);
/// A node is lost when it was silent for so long: well before it is back.
const SILENCE: Duration = Duration::from_secs(4);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(File::create(&arguments.out).expect("create the record"));
    let is_good = if arguments.operator {
        operator(&arguments, &mut out).await
    } else {
        gateway(&arguments, &mut out).await
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn gateway(arguments: &Arguments, out: &mut impl Write) -> bool {
    let soak = Soak::start(Load {
        speed: arguments.speed,
        tombstone_lifetime: Duration::from_secs(arguments.tombstone_lifetime),
        idle: Duration::from_secs(5),
    });
    let mut soak = soak.await;
    println!("Envoy is process {}, its admin port {}", soak.gateway().pid(), soak.gateway().admin_address());
    let start = soak.sample().await;
    soak.begin();
    let shown = ["rss_mib", "allocated_mib", "descriptors", "hosts", "routes", "tombstones", "requests"];
    let samples = watch(arguments.span(), COLUMNS, &shown, out, async |number| {
        let sample = soak.sample().await;
        if number % REPLACED == REPLACED - 1 {
            soak.replace_clusters();
        }
        sample
    });
    let samples = samples.await;
    soak.end().await;
    tell(&soak.done());
    let end = soak.settled(&start).await;
    println!(
        "every count is back; allocated {:.1} MiB before and {:.1} MiB after, RSS {:.1} and {:.1}",
        start.value("allocated_mib"),
        end.value("allocated_mib"),
        start.value("rss_mib"),
        end.value("rss_mib"),
    );
    verdict(arguments.span(), &samples, &soak.unexpected())
}

async fn operator(arguments: &Arguments, out: &mut impl Write) -> bool {
    let mut soak = OperatorSoak::start(arguments.speed, SILENCE).await;
    println!("the operator is process {}", soak.operator().pid());
    let start = soak.sample().await;
    soak.begin();
    let shown = ["rss_mib", "cpu_percent", "descriptors", "sandboxes", "pods", "events", "lag_ms"];
    let samples = watch(arguments.span(), OPERATOR_COLUMNS, &shown, out, async |number| {
        let sample = soak.sample().await;
        match number % LOST.2 {
            at if at == LOST.0 => soak.lose_node(),
            at if at == LOST.1 => soak.find_node().await,
            _ => {}
        }
        sample
    });
    let samples = samples.await;
    soak.end().await;
    tell(&soak.done());
    let end = soak.settled(&start).await;
    println!(
        "every count is back; RSS {:.1} MiB before and {:.1} MiB after",
        start.value("rss_mib"),
        end.value("rss_mib")
    );
    verdict(arguments.span(), &samples, &soak.unexpected())
}

fn tell(done: &[(&'static str, u64)]) {
    println!("the churn has ended, after:");
    for (what, count) in done {
        println!("{count:>9} {what}");
    }
}
