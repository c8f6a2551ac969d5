//! From slots to figures: each contender of each cell beside the limit of the same round.

use std::collections::BTreeMap;

use sandgate_benches::stats::{Spread, paired};

use crate::contender::LIMIT;
use crate::generator::Latency;
use crate::journal::{Kind, Slot};

/// One contender in one cell. A figure that was not measured is not there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) cell: String,
    pub(crate) contender: String,
    /// Rounds with a ratio.
    pub(crate) rounds: usize,
    /// Slots in which a request failed: in no figure.
    pub(crate) failed_slots: usize,
    /// Requests a second.
    pub(crate) rate: Option<Spread>,
    /// The same as a share of the limit's.
    pub(crate) share: Option<Spread>,
    /// Microseconds of the proxy's core a request.
    pub(crate) cpu: Option<Spread>,
    /// The same with the processes beside it.
    pub(crate) cpu_all: Option<Spread>,
    /// That, as a multiple of the limit's.
    pub(crate) cpu_times: Option<Spread>,
    /// How much of its core the proxy used.
    pub(crate) busy: Option<Spread>,
    /// Megabytes.
    pub(crate) resident: Option<Spread>,
    /// Changes of the table, a second.
    pub(crate) changes: Option<Spread>,
    /// The limit's latency is absolute, everyone else's is what they add to it: p50, p99, p99.9 in
    /// microseconds.
    pub(crate) latency: Option<[Spread; 3]>,
}

/// All of them, in the order in which they first appear.
pub(crate) fn summarise(slots: &[Slot]) -> Vec<Summary> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for slot in slots {
        let series = (&*slot.cell, &*slot.contender);
        if !seen.contains(&series) {
            seen.push(series);
        }
    }
    seen.into_iter().map(|(cell, contender)| one(slots, cell, contender)).collect()
}

type Rounds = BTreeMap<usize, f64>;

fn one(slots: &[Slot], cell: &str, contender: &str) -> Summary {
    let of = |name: &str, kind: Kind, value: &dyn Fn(&Slot) -> Option<f64>| -> Rounds {
        let rows =
            slots.iter().filter(|slot| slot.cell == cell && slot.contender == name && slot.kind == kind);
        let good = rows.filter(|slot| slot.answers.failed == 0 && slot.answers.requests > 0);
        good.filter_map(|slot| Some((slot.round, value(slot)?))).collect()
    };
    let throughput = |name: &str, value: &dyn Fn(&Slot) -> Option<f64>| of(name, Kind::Throughput, value);
    let beside = |value: &dyn Fn(&Slot) -> Option<f64>| {
        paired(&throughput(contender, value), &throughput(LIMIT, value), |own, limit| own / limit)
    };
    let plain = |value: &dyn Fn(&Slot) -> Option<f64>| spread(throughput(contender, value).into_values());
    let latency = |which: fn(&Latency) -> f64| {
        let value = |slot: &Slot| slot.answers.latency.as_ref().map(which);
        let own = of(contender, Kind::Latency, &value);
        if contender == LIMIT {
            return spread(own.into_values());
        }
        spread(paired(&own, &of(LIMIT, Kind::Latency, &value), |own, limit| own - limit).into_iter())
    };
    let shares = beside(&rate);
    let series = slots.iter().filter(|slot| slot.cell == cell && slot.contender == contender);
    Summary {
        cell: cell.to_owned(),
        contender: contender.to_owned(),
        rounds: shares.len(),
        failed_slots: series.filter(|slot| slot.answers.failed > 0 || slot.answers.requests == 0).count(),
        rate: plain(&rate),
        share: spread(shares.into_iter()),
        cpu: plain(&cpu),
        cpu_all: plain(&cpu_all),
        cpu_times: spread(beside(&cpu_all).into_iter()),
        busy: plain(&|slot| Some(slot.cpu_nanos as f64 / 1e9 / slot.answers.seconds)),
        resident: plain(&|slot| Some(slot.resident as f64 / 1e6)),
        changes: plain(&|slot| Some(slot.changes as f64 / slot.answers.seconds)),
        latency: latency(|latency| latency.p50)
            .zip(latency(|latency| latency.p99))
            .zip(latency(|latency| latency.p999))
            .map(|((p50, p99), p999)| [p50, p99, p999]),
    }
}

fn rate(slot: &Slot) -> Option<f64> {
    Some(slot.answers.requests as f64 / slot.answers.seconds)
}

fn cpu(slot: &Slot) -> Option<f64> {
    (slot.cpu_nanos > 0).then(|| slot.cpu_nanos as f64 / 1e3 / slot.answers.requests as f64)
}

fn cpu_all(slot: &Slot) -> Option<f64> {
    let nanos = slot.cpu_nanos + slot.side_cpu_nanos;
    (slot.cpu_nanos > 0).then(|| nanos as f64 / 1e3 / slot.answers.requests as f64)
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| Spread::of(&values))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::generator::Answers;

    /// A slot of one second.
    pub(crate) fn slot(cell: &str, contender: &str, kind: Kind, round: usize, requests: u64) -> Slot {
        let micros = if contender == LIMIT { 100.0 } else { 110.0 };
        let latency = Latency { p50: micros, p99: 2.0 * micros, p999: 10.0 * micros };
        Slot {
            cell: cell.to_owned(),
            kind,
            round,
            contender: contender.to_owned(),
            answers: Answers {
                requests,
                seconds: 1.0,
                failed: 0,
                latency: (kind == Kind::Latency).then_some(latency),
            },
            cpu_nanos: 900_000_000,
            side_cpu_nanos: if contender == "ext_proc" { 450_000_000 } else { 0 },
            resident: 50_000_000,
            changes: 0,
        }
    }

    fn find<'s>(summaries: &'s [Summary], contender: &str) -> &'s Summary {
        summaries.iter().find(|summary| summary.contender == contender).expect("summarised")
    }

    #[test]
    fn shares_are_of_the_same_round_and_latency_is_what_is_added() {
        let mut slots = Vec::new();
        for (round, limit) in [(0, 1_000), (1, 2_000), (2, 4_000)] {
            slots.push(slot("cell", LIMIT, Kind::Throughput, round, limit));
            slots.push(slot("cell", "ext_proc", Kind::Throughput, round, limit / 2));
            slots.push(slot("cell", LIMIT, Kind::Latency, round, 10));
            slots.push(slot("cell", "ext_proc", Kind::Latency, round, 10));
        }
        let summaries = summarise(&slots);
        let peer = find(&summaries, "ext_proc");
        assert_eq!(peer.share, Some(Spread { median: 0.5, low: 0.5, high: 0.5 }));
        assert_eq!(peer.rounds, 3);
        assert_eq!(peer.cpu.map(|cpu| cpu.median), Some(900.0));
        assert_eq!(peer.cpu_all.map(|cpu| cpu.median), Some(1_350.0));
        assert_eq!(peer.cpu_times.map(|times| times.median), Some(3.0));
        assert_eq!(peer.latency.map(|all| all.map(|one| one.median)), Some([10.0, 20.0, 100.0]));
        let limit = find(&summaries, LIMIT);
        assert_eq!(limit.share.map(|share| share.median), Some(1.0));
        assert_eq!(limit.latency.map(|all| all[1].median), Some(200.0));
        assert_eq!(limit.resident.map(|bytes| bytes.median), Some(50.0));
    }

    #[test]
    fn a_slot_with_a_failed_request_is_counted_and_in_no_figure() {
        let mut slots = vec![
            slot("cell", LIMIT, Kind::Throughput, 0, 1_000),
            slot("cell", LIMIT, Kind::Throughput, 1, 1_000),
            slot("cell", "lua", Kind::Throughput, 0, 900),
            slot("cell", "lua", Kind::Throughput, 1, 10),
        ];
        slots[3].answers.failed = 1;
        let summaries = summarise(&slots);
        let lua = find(&summaries, "lua");
        assert_eq!((lua.rounds, lua.failed_slots), (1, 1));
        assert_eq!(lua.share.map(|share| share.median), Some(0.9));
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let summaries = summarise(&[slot("cell", "lua", Kind::Throughput, 0, 900)]);
        assert_eq!(summaries[0].share, None);
        assert_eq!(summaries[0].latency, None);
        assert!(summaries[0].rate.is_some());
    }
}
