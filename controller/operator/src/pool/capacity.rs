//! How many pods a pool makes and lets go.
//!
//! Idle pods are a *buffer*: those that are ready can be given away at once, those that are not are *in
//! flight*. The buffer that counts is what will be left once everything in flight is ready and everybody who
//! waits has been served. Within `bufferMin..=bufferMax` it stays as it is. Outside, it is brought to the
//! middle between the two. So a pool whose demand does not change never deletes what it has made: it makes
//! pods up to the middle, and lets them go only above the maximum.
//!
//! A pod that everybody who waits has given back before is no supply of theirs: they are made others, and the
//! buffer is too big for a while.
//!
//! Bounds: the pods of a pool, those that are ending among them, are never made more than `poolMax`, and not
//! let go below `poolMin`. At most `scaleStrategy.maxUnavailable` of the pods that there are to be are in
//! flight when the pool grows, and at most so many of those that there are may be ending when it shrinks.

use super::terms::Terms;

/// A pool in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    /// Pods that a batch holds, or is given now.
    pub(super) held: usize,
    /// Pods that nobody was given and that batches wait for.
    pub(super) waited_for: usize,
    /// Idle and ready pods that stay.
    pub(super) ready: usize,
    /// Those of them that nobody who waits can be given: each has given them back before.
    pub(super) refused: usize,
    /// Pods in flight that stay: idle and not ready, or asked for and not seen.
    pub(super) in_flight: usize,
    /// Idle pods that go and are to be replaced, whatever the size of the buffer.
    pub(super) replaced: usize,
    /// Other pods that live: to be recycled, evicted or deleted.
    pub(super) others: usize,
    /// Pods that are ending.
    pub(super) leaving: usize,
}

/// What a pool does about its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// How many pods to make.
    pub(super) create: usize,
    /// How many idle pods to let go.
    pub(super) delete: usize,
    /// Whether `poolMax` keeps pods from being made that batches wait for.
    pub(super) is_exhausted: bool,
}

/// Decides. `limit` is the share of so many pods that `scaleStrategy` allows to be unavailable.
pub(super) fn change(terms: &Terms, levels: &Levels, limit: impl Fn(usize) -> usize) -> Change {
    let Levels { held, waited_for, ready, refused, in_flight, replaced, others, leaving } = *levels;
    let idle = ready + in_flight;
    // What was idle before this look decided to replace some of it.
    let had = idle + replaced;
    let buffer = had.saturating_sub(waited_for);
    let is_short = had < waited_for + terms.buffer_min;
    let is_too_big = had > waited_for + terms.buffer_max;
    let buffer = if is_short || is_too_big { terms.middle() } else { buffer };
    let wanted = (held + waited_for + buffer).max(terms.pool_min);
    let has = held + idle;
    let wanted = match waited_for.saturating_sub(idle.saturating_sub(refused)) {
        0 => wanted,
        missing => wanted.max(has + missing),
    };
    if has < wanted {
        let room = terms.pool_max.saturating_sub(has + replaced + others + leaving);
        let may_be_in_flight = limit(wanted).saturating_sub(in_flight);
        let is_exhausted = room == 0 && in_flight < waited_for;
        return Change { create: (wanted - has).min(room).min(may_be_in_flight), delete: 0, is_exhausted };
    }
    let may_be_ending = limit(has).saturating_sub(leaving + replaced);
    Change { create: 0, delete: (has - wanted).min(may_be_ending).min(idle), is_exhausted: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERMS: Terms = Terms { buffer_min: 2, buffer_max: 6, pool_min: 0, pool_max: 20 };

    fn all(_: usize) -> usize {
        usize::MAX
    }

    fn quarter(of: usize) -> usize {
        of.div_ceil(4).max(1)
    }

    fn made(terms: Terms, levels: Levels) -> (usize, usize) {
        let Change { create, delete, .. } = change(&terms, &levels, all);
        (create, delete)
    }

    #[test]
    fn an_empty_pool_is_filled_to_the_middle_and_to_its_minimum() {
        let terms = |pool_min, pool_max| Terms { pool_min, pool_max, ..TERMS };
        assert_eq!(made(TERMS, Levels::default()), (4, 0));
        assert_eq!(made(terms(10, 20), Levels::default()), (10, 0));
        assert_eq!(made(terms(0, 3), Levels::default()), (3, 0));
        assert_eq!(made(terms(0, 0), Levels::default()), (0, 0));
    }

    #[test]
    fn within_the_band_nothing_happens() {
        for ready in 2..=6 {
            for in_flight in 0..=6 - ready {
                let levels = Levels { ready, in_flight, held: 3, ..Levels::default() };
                assert_eq!(made(TERMS, levels), (0, 0), "{levels:?}");
            }
        }
    }

    #[test]
    fn outside_of_the_band_the_middle_is_the_aim() {
        let levels = |ready| Levels { ready, held: 5, ..Levels::default() };
        assert_eq!(made(TERMS, levels(1)), (3, 0));
        assert_eq!(made(TERMS, levels(7)), (0, 3));
        assert_eq!(made(TERMS, levels(15)), (0, 11));
    }

    #[test]
    fn pods_in_flight_are_not_made_again() {
        let levels = |ready, in_flight| Levels { ready, in_flight, ..Levels::default() };
        assert_eq!(made(TERMS, levels(0, 4)), (0, 0));
        assert_eq!(made(TERMS, levels(1, 1)), (0, 0));
        assert_eq!(made(TERMS, levels(0, 1)), (3, 0));
    }

    #[test]
    fn who_waits_is_served_and_the_buffer_is_kept() {
        let levels = Levels { waited_for: 5, held: 2, ..Levels::default() };
        assert_eq!(made(TERMS, levels), (9, 0));
        assert_eq!(made(TERMS, Levels { in_flight: 9, ..levels }), (0, 0));
        assert_eq!(made(TERMS, Levels { in_flight: 6, ..levels }), (3, 0));
    }

    #[test]
    fn pods_that_nobody_who_waits_can_be_given_are_no_supply() {
        let levels = |waited_for, ready, refused, in_flight| Levels {
            waited_for,
            ready,
            refused,
            in_flight,
            ..Levels::default()
        };
        let terms = Terms { buffer_min: 0, ..TERMS };
        assert_eq!(made(terms, levels(1, 1, 1, 0)), (1, 0));
        assert_eq!(made(terms, levels(1, 1, 1, 1)), (0, 0), "one is on its way");
        assert_eq!(made(terms, levels(2, 3, 1, 0)), (0, 0), "the others will do");
        assert_eq!(made(terms, levels(3, 3, 1, 0)), (1, 0));
    }

    #[test]
    fn the_maximum_counts_everything_that_lives_and_what_is_ending() {
        let levels = |held, others, leaving| Levels { held, others, leaving, ..Levels::default() };
        assert_eq!(made(TERMS, levels(10, 0, 0)), (4, 0));
        assert_eq!(made(TERMS, levels(10, 5, 2)), (3, 0));
        assert_eq!(made(TERMS, levels(10, 5, 5)), (0, 0));
        assert_eq!(made(TERMS, levels(18, 0, 9)), (0, 0));
        assert_eq!(made(TERMS, levels(25, 0, 0)), (0, 0), "the maximum is not kept by deleting");
    }

    #[test]
    fn the_minimum_is_kept_and_a_surplus_below_it_is_none() {
        let terms = Terms { pool_min: 10, ..TERMS };
        let levels = |held, ready| Levels { held, ready, ..Levels::default() };
        assert_eq!(made(terms, levels(0, 10)), (0, 0));
        assert_eq!(made(terms, levels(0, 15)), (0, 5));
        assert_eq!(made(terms, levels(3, 7)), (0, 0));
        assert_eq!(made(terms, levels(3, 4)), (3, 0));
    }

    #[test]
    fn what_is_replaced_is_made_again_also_within_the_band() {
        let levels = |ready, replaced| Levels { ready, replaced, held: 1, ..Levels::default() };
        assert_eq!(made(TERMS, levels(3, 2)), (2, 0));
        assert_eq!(made(TERMS, levels(1, 1)), (1, 0));
        assert_eq!(made(TERMS, levels(6, 3)), (0, 2), "of too many only some are made again");
    }

    #[test]
    fn growing_and_shrinking_are_bounded() {
        let change = |levels: Levels| {
            let Change { create, delete, .. } = change(&TERMS, &levels, quarter);
            (create, delete)
        };
        let levels = Levels { held: 12, ..Levels::default() };
        assert_eq!(change(levels), (4, 0), "a quarter of 16");
        assert_eq!(change(Levels { in_flight: 1, ..levels }), (3, 0));
        assert_eq!(
            change(Levels { in_flight: 4, waited_for: 9, ..levels }),
            (3, 0),
            "a quarter of 25, less 4"
        );
        assert_eq!(change(Levels { ready: 20, ..levels }), (0, 8), "a quarter of 32");
        assert_eq!(change(Levels { ready: 20, leaving: 3, ..levels }), (0, 5));
        assert_eq!(change(Levels { ready: 20, leaving: 9, ..levels }), (0, 0));
    }

    #[test]
    fn a_pool_is_exhausted_when_its_maximum_keeps_somebody_waiting() {
        let exhausted = |levels: Levels| change(&TERMS, &levels, all).is_exhausted;
        let full = Levels { held: 20, waited_for: 1, ..Levels::default() };
        assert!(exhausted(full));
        assert!(!exhausted(Levels { waited_for: 0, ..full }), "nobody waits");
        assert!(!exhausted(Levels { held: 19, in_flight: 1, ..full }), "a pod is on its way");
        assert!(!exhausted(Levels { held: 10, ..full }));
    }

    /// Pods of a pool, one after the other, on the way from made to ready.
    #[derive(Clone, Copy, Debug)]
    struct Pool {
        ready: usize,
        in_flight: usize,
        leaving: usize,
    }

    proptest! {
        #[test]
        fn with_a_constant_demand_no_create_is_followed_by_a_delete(
            (buffer_min, band) in (0..8_usize, 0..8_usize),
            (pool_min, pool_max) in (0..20_usize, 0..60_usize),
            (ready, in_flight, leaving) in (0..30_usize, 0..20_usize, 0..10_usize),
            demand in 0..40_usize,
            fates in proptest::collection::vec((0..4_usize, 0..4_usize), 1..60),
        ) {
            let terms = Terms { buffer_min, buffer_max: buffer_min + band, pool_min: pool_min.min(pool_max), pool_max };
            let (mut pool, mut held) = (Pool { ready, in_flight, leaving }, 0);
            let mut has_made = false;
            let fates = fates.into_iter().chain(std::iter::repeat_n((50, 50), 200));
            for (become_ready, end) in fates {
                let given = pool.ready.min(demand - held);
                held += given;
                pool.ready -= given;
                let levels = Levels {
                    held,
                    waited_for: demand - held,
                    ready: pool.ready,
                    in_flight: pool.in_flight,
                    leaving: pool.leaving,
                    ..Levels::default()
                };
                let Change { create, delete, .. } = change(&terms, &levels, quarter);
                let all = held + pool.ready + pool.in_flight + pool.leaving;
                prop_assert!(create == 0 || all + create <= pool_max, "more than the maximum");
                prop_assert!(!(has_made && delete > 0), "a create is followed by a delete: {levels:?}");
                has_made |= create > 0;
                // The least useful ones go first.
                let from_flight = delete.min(pool.in_flight);
                pool.in_flight = pool.in_flight - from_flight + create;
                pool.ready -= delete - from_flight;
                pool.leaving += delete;
                let done = become_ready.min(pool.in_flight);
                pool.in_flight -= done;
                pool.ready += done;
                pool.leaving -= end.min(pool.leaving);
            }
            // It comes to rest where it is to be.
            prop_assert_eq!(pool.in_flight, 0);
            if pool_max >= demand + buffer_min {
                prop_assert_eq!(held, demand);
                prop_assert!(held + pool.ready >= terms.pool_min && pool.ready >= buffer_min);
                let most = terms.buffer_max.max(terms.pool_min.saturating_sub(held));
                prop_assert!(pool.ready <= most, "{} ready of {most}", pool.ready);
            }
        }
    }
}
