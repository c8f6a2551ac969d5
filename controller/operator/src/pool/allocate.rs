//! Which batch gets which of the pods that wait.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What a batch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// How many pods.
    pub(super) wanted: usize,
    /// Pods that it cannot be given: it has them, or has given them back, by its own list.
    pub(super) refused: &'a BTreeSet<Arc<str>>,
}

/// Gives pods away.
pub(super) trait AllocationStrategy: Send + Sync {
    /// For each request, in the order in which they came, the numbers of its pods. No pod is given twice, no
    /// request gets more than it wants.
    fn assign(&self, requests: &[Request<'_>], free: &[Arc<str>]) -> Vec<Vec<usize>>;
}

/// The strategy of a pool that names no other: who came first gets everything that it asks for, as far as
/// there is enough, before the next one gets any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed;

/// Pods are given one by one, around the circle of those who ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread;

/// The pods that are left, in their order.
struct Left<'a> {
    free: &'a [Arc<str>],
    left: Vec<usize>,
}

impl<'a> Left<'a> {
    fn new(free: &'a [Arc<str>]) -> Self {
        Self { free, left: (0..free.len()).rev().collect() }
    }

    /// The first that this request takes.
    fn take(&mut self, request: &Request<'_>) -> Option<usize> {
        let takes = |pod: &usize| !request.refused.contains(&self.free[*pod]);
        let at = self.left.iter().rposition(takes)?;
        Some(self.left.remove(at))
    }
}

impl AllocationStrategy for Packed {
    fn assign(&self, requests: &[Request<'_>], free: &[Arc<str>]) -> Vec<Vec<usize>> {
        let mut left = Left::new(free);
        let one = |request: &Request<'_>| (0..request.wanted).map_while(|_| left.take(request)).collect();
        requests.iter().map(one).collect()
    }
}

impl AllocationStrategy for Spread {
    fn assign(&self, requests: &[Request<'_>], free: &[Arc<str>]) -> Vec<Vec<usize>> {
        let mut left = Left::new(free);
        let mut given = vec![Vec::new(); requests.len()];
        loop {
            let before = left.left.len();
            for (request, given) in requests.iter().zip(&mut given) {
                if given.len() < request.wanted {
                    given.extend(left.take(request));
                }
            }
            if left.left.len() == before {
                return given;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|number| format!("p{number}").into()).collect()
    }

    fn assigned(strategy: &dyn AllocationStrategy, wanted: &[usize], free: usize) -> Vec<Vec<usize>> {
        let none = BTreeSet::new();
        let requests: Vec<_> = wanted.iter().map(|&wanted| Request { wanted, refused: &none }).collect();
        strategy.assign(&requests, &names(free))
    }

    #[test]
    fn packed_serves_one_after_the_other_from_the_front() {
        for (wanted, free, expected) in [
            (&[][..], 3, vec![]),
            (&[2], 0, vec![vec![]]),
            (&[0], 3, vec![vec![]]),
            (&[2], 3, vec![vec![0, 1]]),
            (&[2, 1], 3, vec![vec![0, 1], vec![2]]),
            (&[2, 2], 3, vec![vec![0, 1], vec![2]]),
            (&[5, 1], 3, vec![vec![0, 1, 2], vec![]]),
        ] {
            assert_eq!(assigned(&Packed, wanted, free), expected, "{wanted:?} of {free}");
        }
    }

    #[test]
    fn spread_gives_one_to_each_and_goes_around_again() {
        for (wanted, free, expected) in [
            (&[][..], 3, vec![]),
            (&[2], 0, vec![vec![]]),
            (&[0], 3, vec![vec![]]),
            (&[2], 3, vec![vec![0, 1]]),
            (&[2, 1], 3, vec![vec![0, 2], vec![1]]),
            (&[2, 2], 3, vec![vec![0, 2], vec![1]]),
            (&[5, 1, 5], 4, vec![vec![0, 3], vec![1], vec![2]]),
        ] {
            assert_eq!(assigned(&Spread, wanted, free), expected, "{wanted:?} of {free}");
        }
    }

    #[test]
    fn a_pod_that_one_cannot_take_goes_to_the_next() {
        let (refused, none) = (BTreeSet::from(["p0".into()]), BTreeSet::new());
        let requests = [Request { wanted: 1, refused: &refused }, Request { wanted: 2, refused: &none }];
        assert_eq!(Packed.assign(&requests, &names(3)), [vec![1], vec![0, 2]]);
        assert_eq!(Spread.assign(&requests, &names(3)), [vec![1], vec![0, 2]]);
    }

    proptest! {
        #[test]
        fn no_pod_is_given_twice_and_none_is_left_while_somebody_wants_it(
            wanted in proptest::collection::vec(0..5_usize, 0..8),
            refusals in proptest::collection::vec(proptest::collection::btree_set(0..12_usize, 0..4), 8),
            free in 0..12_usize,
        ) {
            let names = names(12);
            let refused: Vec<BTreeSet<Arc<str>>> = refusals
                .iter()
                .map(|pods| pods.iter().map(|&pod| Arc::clone(&names[pod])).collect())
                .collect();
            let requests: Vec<_> =
                wanted.iter().zip(&refused).map(|(&wanted, refused)| Request { wanted, refused }).collect();
            for strategy in [&Packed as &dyn AllocationStrategy, &Spread] {
                let given = strategy.assign(&requests, &names[..free]);
                prop_assert_eq!(given.len(), requests.len());
                let all: Vec<_> = given.iter().flatten().copied().collect();
                let distinct: BTreeSet<_> = all.iter().copied().collect();
                prop_assert_eq!(distinct.len(), all.len());
                for (request, given) in requests.iter().zip(&given) {
                    prop_assert!(given.len() <= request.wanted);
                    prop_assert!(given.iter().all(|&pod| pod < free && !request.refused.contains(&names[pod])));
                    if given.len() < request.wanted {
                        let mut left = (0..free).filter(|pod| !distinct.contains(pod));
                        prop_assert!(left.all(|pod| request.refused.contains(&names[pod])));
                    }
                }
            }
        }
    }
}
