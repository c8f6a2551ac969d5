//! The soak: `make soak`, an hour unless MINUTES says otherwise. Ends with 1 when something grows or does not
//! return.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sandgate_tests::soak::{self, Load, Sample, Soak};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// A gateway under everything that happens to one; samples what it uses, and says whether something grows.
#[derive(Debug, Parser)]
struct Arguments {
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
    /// How long a deleted route is remembered, in seconds.
    #[arg(long, default_value_t = 30)]
    tombstone_lifetime: u64,
    /// Where the samples go, as TSV.
    #[arg(long, default_value = "soak.tsv")]
    out: PathBuf,
}

/// A line on the terminal every so many samples.
const TOLD: usize = 12;
/// The clusters are replaced every so many samples.
const REPLACED: usize = 6;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(File::create(&arguments.out).expect("create the record"));
    let soak = Soak::start(Load {
        speed: arguments.speed,
        tombstone_lifetime: Duration::from_secs(arguments.tombstone_lifetime),
        idle: Duration::from_secs(5),
    });
    let mut soak = soak.await;
    println!("Envoy is process {}, its admin port {}", soak.gateway().pid(), soak.gateway().admin_address());
    let start = soak.sample().await;
    soak.begin();
    let samples = watch(&mut soak, &arguments, &mut out).await;
    soak.end().await;
    println!("the churn has ended, after:");
    for (what, count) in soak.done() {
        println!("{count:>9} {what}");
    }
    let end = soak.settled(&start).await;
    println!(
        "every count is back; allocated {:.1} MiB before and {:.1} MiB after, RSS {:.1} and {:.1}",
        start.value("allocated_mib"),
        end.value("allocated_mib"),
        start.value("rss_mib"),
        end.value("rss_mib"),
    );
    verdict(&soak, &arguments, &samples)
}

/// Samples until the time is over.
async fn watch(soak: &mut Soak, arguments: &Arguments, out: &mut impl Write) -> Vec<Sample> {
    let until = Instant::now() + Duration::from_secs_f64(arguments.minutes * 60.0);
    let mut ticks = interval(Duration::from_secs_f64(arguments.every));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut samples = Vec::new();
    Sample::write_header(out).expect("write the record");
    let stopped = stopped();
    tokio::pin!(stopped);
    while Instant::now() < until {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => break,
        }
        let sample = soak.sample().await;
        sample.write(out).and_then(|()| out.flush()).expect("write the record");
        if samples.len() % TOLD == 0 {
            println!("{}", line(&sample));
        }
        if samples.len() % REPLACED == REPLACED - 1 {
            soak.replace_clusters();
        }
        samples.push(sample);
    }
    samples
}

/// Returns when somebody wants an end now; what there is is judged.
async fn stopped() {
    let mut terminated = signal(SignalKind::terminate()).expect("listen for SIGTERM");
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

fn line(sample: &Sample) -> String {
    let shown = ["rss_mib", "allocated_mib", "descriptors", "hosts", "routes", "tombstones", "requests"];
    let shown = shown.map(|name| format!("{name} {:.1}", sample.value(name)));
    format!("{:>6.0} s: {}", sample.at.as_secs_f64(), shown.join(", "))
}

fn verdict(soak: &Soak, arguments: &Arguments, samples: &[Sample]) -> ExitCode {
    let warm_up = arguments.warm_up.unwrap_or((arguments.minutes / 3.0).min(10.0));
    let warm_up = Duration::from_secs_f64(warm_up * 60.0);
    let cool: Vec<Sample> = samples.iter().filter(|sample| sample.at >= warm_up).cloned().collect();
    let Some(judged) = soak::judge(&cool) else {
        println!("{} samples after {warm_up:?} are too few to judge", cool.len());
        return ExitCode::FAILURE;
    };
    let judged_for = judged.first().map_or(0.0, |one| one.trend.seconds);
    println!("from {:.0} s on, over {judged_for:.0} s:\n{}", warm_up.as_secs_f64(), soak::table(&judged));
    let unexpected = soak.unexpected();
    for what in &unexpected {
        println!("unexpected: {what}");
    }
    if unexpected.is_empty() && !judged.iter().any(soak::Judged::grows) {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}
