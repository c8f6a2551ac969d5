//! How a pool replaces its idle pods after its template has changed.
//!
//! Pods that a batch holds are never touched: they are replaced when they come back.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::terms::share;

/// What an update strategy is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outdated<'a> {
    /// `updateStrategy.maxUnavailable`.
    pub(super) max_unavailable: Option<&'a IntOrString>,
    /// How many pods there are, whoever holds them: what a share is of.
    pub(super) pods: usize,
    /// Idle pods of older revisions that are not ready.
    pub(super) unready_old: usize,
    /// Idle pods of older revisions that are ready.
    pub(super) ready_old: usize,
    /// Pods in flight of the revision asked for, and those that are missing.
    pub(super) unavailable_new: usize,
    /// How many pods can be made at once.
    pub(super) room: usize,
    /// Pods that are ending.
    pub(super) leaving: usize,
    /// Whether the pool waits before it makes another pod.
    pub(super) is_waiting: bool,
}

/// Decides which of the idle pods of older revisions go now.
pub(super) trait UpdateStrategy: Send + Sync {
    /// How many of them, in the order in which idle pods go: those that are not ready come first.
    fn replace(&self, outdated: &Outdated<'_>) -> usize;
}

/// The strategy of a pool that names no other: a pod is deleted, and a new one is made.
///
/// Pods that are not ready serve nobody, so all of them go. Of those that are ready as many go as
/// `maxUnavailable` allows to be missing. One whose successor cannot be made before it has ended counts until
/// then. While the new template fails, those that are ready stay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recreate;

impl UpdateStrategy for Recreate {
    fn replace(&self, outdated: &Outdated<'_>) -> usize {
        let Outdated { unready_old, ready_old, is_waiting, .. } = *outdated;
        if is_waiting {
            return unready_old;
        }
        let budget = share(outdated.max_unavailable, outdated.pods);
        // Those that are not ready are gone and made anew: they are missing for a while.
        let missing = outdated.unavailable_new + unready_old;
        let budget = budget.saturating_sub(missing);
        let made_at_once = outdated.room.saturating_sub(unready_old);
        let ready = budget.saturating_sub(outdated.leaving).max(budget.min(made_at_once));
        unready_old + ready_old.min(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(max_unavailable: Option<&IntOrString>, outdated: Outdated<'_>) -> usize {
        let room = if outdated.room == 0 { 1000 } else { outdated.room };
        Recreate.replace(&Outdated { max_unavailable, room, ..outdated })
    }

    fn percent(text: &str) -> Option<IntOrString> {
        Some(IntOrString::String(text.to_owned()))
    }

    const TEN: Outdated<'static> = Outdated {
        max_unavailable: None,
        pods: 10,
        unready_old: 0,
        ready_old: 10,
        unavailable_new: 0,
        room: 0,
        leaving: 0,
        is_waiting: false,
    };

    #[test]
    fn a_share_of_all_pods_is_rounded_up_and_is_at_least_one() {
        for (limit, pods, expected) in [
            (None, 10, 3),
            (percent("25%"), 10, 3),
            (percent("10%"), 10, 1),
            (percent("0%"), 10, 1),
            (percent("100%"), 10, 10),
            (percent("25%"), 40, 10),
            (Some(IntOrString::Int(0)), 10, 1),
            (Some(IntOrString::Int(4)), 10, 4),
        ] {
            assert_eq!(replaced(limit.as_ref(), Outdated { pods, ..TEN }), expected, "{limit:?} of {pods}");
        }
    }

    #[test]
    fn nothing_goes_when_every_pod_is_of_the_revision_asked_for() {
        assert_eq!(replaced(None, Outdated { ready_old: 0, ..TEN }), 0);
        assert_eq!(replaced(None, Outdated { ready_old: 0, unavailable_new: 5, ..TEN }), 0);
    }

    #[test]
    fn within_the_budget_all_go_and_beyond_it_the_first() {
        let limit = || Some(IntOrString::Int(3));
        assert_eq!(replaced(limit().as_ref(), Outdated { ready_old: 2, ..TEN }), 2);
        assert_eq!(replaced(limit().as_ref(), Outdated { ready_old: 3, ..TEN }), 3);
        assert_eq!(replaced(limit().as_ref(), Outdated { ready_old: 8, ..TEN }), 3);
    }

    #[test]
    fn what_is_not_ready_goes_whatever_the_budget() {
        assert_eq!(replaced(percent("10%").as_ref(), Outdated { unready_old: 7, ready_old: 0, ..TEN }), 7);
        assert_eq!(replaced(percent("10%").as_ref(), Outdated { unready_old: 7, ready_old: 3, ..TEN }), 7);
        assert_eq!(replaced(Some(&IntOrString::Int(5)), Outdated { unready_old: 3, ready_old: 7, ..TEN }), 5);
    }

    #[test]
    fn new_pods_that_are_not_ready_take_from_the_budget() {
        let limit = || Some(IntOrString::Int(3));
        for (unavailable_new, expected) in [(0, 3), (1, 2), (3, 0), (9, 0)] {
            assert_eq!(replaced(limit().as_ref(), Outdated { unavailable_new, ..TEN }), expected);
        }
    }

    #[test]
    fn pods_that_are_held_count_for_the_share_and_never_go() {
        // Of forty, thirty are held: they are not among those that this is told of.
        assert_eq!(replaced(None, Outdated { pods: 40, ready_old: 4, ..TEN }), 4);
        assert_eq!(replaced(None, Outdated { pods: 40, ready_old: 0, ..TEN }), 0);
    }

    #[test]
    fn a_pool_at_its_maximum_waits_for_those_that_are_ending() {
        let limit = || Some(IntOrString::Int(3));
        assert_eq!(replaced(limit().as_ref(), Outdated { room: 1, leaving: 0, ..TEN }), 3);
        assert_eq!(replaced(limit().as_ref(), Outdated { room: 1, leaving: 2, ..TEN }), 1);
        assert_eq!(
            replaced(limit().as_ref(), Outdated { room: 1, leaving: 3, ..TEN }),
            1,
            "one can be made at once"
        );
        assert_eq!(replaced(limit().as_ref(), Outdated { room: 9, leaving: 3, ..TEN }), 3);
    }

    #[test]
    fn while_the_new_template_fails_ready_pods_stay() {
        assert_eq!(
            replaced(percent("100%").as_ref(), Outdated { is_waiting: true, unready_old: 2, ..TEN }),
            2
        );
    }
}
