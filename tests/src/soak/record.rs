//! A soak from its first sample to its verdict: what the command prints and writes.

use std::io::Write;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Column, Judged, Sample, judge, table};

/// A line on the terminal every so many samples.
const TOLD: usize = 12;

/// How long a soak is, and how often it is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// How long.
    pub long: Duration,
    /// How long from the beginning is not judged.
    pub warm_up: Duration,
    /// The time between two samples.
    pub every: Duration,
}

/// Samples until the time is over or somebody wants an end now, and writes every sample. `shown` are the
/// columns that the terminal has.
///
/// # Panics
/// When the record cannot be written.
pub async fn watch(
    span: Span,
    columns: &[Column],
    shown: &[&str],
    out: &mut impl Write,
    mut sample: impl AsyncFnMut(usize) -> Sample,
) -> Vec<Sample> {
    let until = Instant::now() + span.long;
    let mut ticks = interval(span.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut samples = Vec::new();
    Sample::write_header(columns, out).expect("write the record");
    let stopped = stopped();
    tokio::pin!(stopped);
    while Instant::now() < until {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => break,
        }
        let sample = sample(samples.len()).await;
        sample.write(out).and_then(|()| out.flush()).expect("write the record");
        if samples.len() % TOLD == 0 {
            println!("{}", line(&sample, shown));
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

fn line(sample: &Sample, shown: &[&str]) -> String {
    let shown: Vec<String> = shown.iter().map(|name| format!("{name} {:.1}", sample.value(name))).collect();
    format!("{:>6.0} s: {}", sample.at.as_secs_f64(), shown.join(", "))
}

/// Judges what came after the warm-up and says so: whether nothing grows and nothing was unexpected.
pub fn verdict(span: Span, samples: &[Sample], unexpected: &[String]) -> bool {
    let cool: Vec<Sample> = samples.iter().filter(|sample| sample.at >= span.warm_up).cloned().collect();
    let Some(judged) = judge(&cool) else {
        println!("{} samples after {:?} are too few to judge", cool.len(), span.warm_up);
        return false;
    };
    let judged_for = judged.first().map_or(0.0, |one| one.trend.seconds);
    println!("from {:.0} s on, over {judged_for:.0} s:\n{}", span.warm_up.as_secs_f64(), table(&judged));
    for what in unexpected {
        println!("unexpected: {what}");
    }
    unexpected.is_empty() && !judged.iter().any(Judged::grows)
}
