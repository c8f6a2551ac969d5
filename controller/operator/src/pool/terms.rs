//! What a pool asks for, in numbers that go together.
//!
//! Pools that were made before the rules between the fields were checked may ask for a minimum above its
//! maximum. The maximum counts then: a pool with too few pods makes batches wait, one with too many costs
//! more than its owner has agreed to.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sandgate_objects::opensandbox::resources::PoolSpec;

/// `maxUnavailable` of a strategy that says nothing, or nothing that can be read.
const DEFAULT_PERCENT: u64 = 25;

/// How many pods a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Fewer idle pods are too few.
    pub(super) buffer_min: usize,
    /// More idle pods are too many.
    pub(super) buffer_max: usize,
    /// How many pods there are at least.
    pub(super) pool_min: usize,
    /// How many pods there are at most.
    pub(super) pool_max: usize,
}

impl Terms {
    /// The terms of a pool.
    pub(super) fn of(spec: &PoolSpec) -> Self {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let capacity = &spec.capacity_spec;
        let (buffer_max, pool_max) = (number(capacity.buffer_max), number(capacity.pool_max));
        Self {
            buffer_min: number(capacity.buffer_min).min(buffer_max),
            buffer_max,
            pool_min: number(capacity.pool_min).min(pool_max),
            pool_max,
        }
    }

    /// How many idle pods there are to be when there are too few or too many.
    pub(super) fn middle(&self) -> usize {
        usize::midpoint(self.buffer_min, self.buffer_max)
    }
}

/// A number, or a share of `whole` rounded up; but never nothing, as then nothing would ever happen.
pub(super) fn share(limit: Option<&IntOrString>, whole: usize) -> usize {
    let percent = |percent: u64| {
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        usize::try_from(percent.saturating_mul(whole).div_ceil(100)).unwrap_or(usize::MAX)
    };
    let read = |text: &str| text.trim().strip_suffix('%')?.trim().parse().ok().map(percent);
    let limit = match limit {
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or_default(),
        Some(IntOrString::String(text)) => read(text).unwrap_or_else(|| percent(DEFAULT_PERCENT)),
        None => percent(DEFAULT_PERCENT),
    };
    limit.max(1)
}

#[cfg(test)]
mod tests {
    use sandgate_objects::opensandbox::resources::CapacitySpec;

    use super::*;

    fn terms(buffer_min: i32, buffer_max: i32, pool_min: i32, pool_max: i32) -> Terms {
        let capacity_spec = CapacitySpec { buffer_max, buffer_min, pool_max, pool_min };
        Terms::of(&PoolSpec { capacity_spec, ..PoolSpec::default() })
    }

    #[test]
    fn terms_that_do_not_go_together_are_made_to_and_the_maximum_counts() {
        let is =
            |buffer_min, buffer_max, pool_min, pool_max| Terms { buffer_min, buffer_max, pool_min, pool_max };
        assert_eq!(terms(1, 3, 2, 10), is(1, 3, 2, 10));
        assert_eq!(terms(5, 3, 12, 10), is(3, 3, 10, 10));
        assert_eq!(terms(-1, -3, -2, -4), is(0, 0, 0, 0));
        assert_eq!((terms(1, 4, 0, 9).middle(), terms(2, 2, 0, 9).middle()), (2, 2));
    }

    #[test]
    fn a_share_is_rounded_up_and_is_never_nothing() {
        let text = |text: &str| Some(IntOrString::String(text.to_owned()));
        for (limit, whole, expected) in [
            (text("25%"), 10, 3),
            (text("25%"), 8, 2),
            (text("25%"), 0, 1),
            (text("0%"), 10, 1),
            (text("100%"), 7, 7),
            (text("250%"), 4, 10),
            (text("many"), 10, 3),
            (text("-5%"), 10, 3),
            (Some(IntOrString::Int(4)), 10, 4),
            (Some(IntOrString::Int(0)), 10, 1),
            (Some(IntOrString::Int(-2)), 10, 1),
            (None, 10, 3),
        ] {
            assert_eq!(share(limit.as_ref(), whole), expected, "{limit:?} of {whole}");
        }
    }
}
