use super::*;

#[test]
fn a_few_go_on_at_once_and_the_others_in_turn() {
    let now = Instant::now();
    let mut release = Release::<u8>::default();
    assert_eq!((release.take(now, 1), release.due()), (vec![], None));
    release.add((0..6).collect());
    assert_eq!(release.take(now, 1), [0, 1, 2, 3]);
    assert_eq!((release.take(now, 1), release.due()), (vec![], Some(now + TURN)));
    release.add(vec![6]);
    assert!(release.take(now, 1).is_empty(), "who comes later does not overtake");
    assert_eq!(release.take(now + TURN, 1), [4, 5, 6]);
    assert_eq!(release.due(), None);
    release.add(vec![7]);
    assert!(release.take(now + TURN, 1).is_empty(), "nor does one who comes right after them go at once");
    assert_eq!(release.take(now + 3 * TURN, 1), [7]);
}

#[test]
fn each_worker_has_its_few() {
    let mut release = Release::default();
    release.add(vec![(); 40]);
    assert_eq!(release.take(Instant::now(), 3).len(), 3 * FEW);
}

#[test]
fn many_do_not_wait_much_longer_than_few() {
    let mut now = Instant::now();
    let mut release = Release::default();
    release.add(vec![(); 10_000]);
    let mut turns = 0;
    while release.due().is_some() || turns == 0 {
        assert!(!release.take(now, 1).is_empty());
        now += TURN;
        turns += 1;
    }
    assert!(turns < 64, "{turns}");
}
