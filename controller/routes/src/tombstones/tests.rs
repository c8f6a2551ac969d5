use super::*;
use proptest::prelude::*;

fn key(number: u8) -> ObjectKey {
    ObjectKey::new("p", "n", &format!("x{number}")).unwrap()
}

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

/// Adds a tombstone as the table does, and returns whether one was lost for it.
fn insert(tombstones: &mut Tombstones, number: u8, at: u64, deadline: u64) -> bool {
    let excess = tombstones.excess();
    if let Some(oldest) = excess {
        tombstones.remove(oldest);
    }
    tombstones.insert(key(number), version(at), deadline).is_none() || excess.is_some()
}

fn versions(tombstones: &Tombstones) -> Vec<(u8, String)> {
    (0..24)
        .filter_map(|n| Some((n, tombstones.version(tombstones.find(key(n).raw())?).to_string())))
        .collect()
}

#[test]
fn at_the_cap_the_oldest_delete_goes_whatever_its_version() {
    let mut tombstones = Tombstones::new(2);
    assert!(!insert(&mut tombstones, 1, 20, 0));
    assert!(!insert(&mut tombstones, 2, 10, 0));
    assert!(insert(&mut tombstones, 3, 15, 0));
    assert_eq!(versions(&tombstones), [(2, "10".into()), (3, "15".into())]);
    tombstones.renew(tombstones.find(key(2).raw()).unwrap(), version(11), 0);
    assert!(insert(&mut tombstones, 4, 5, 0));
    assert_eq!(versions(&tombstones), [(2, "11".into()), (4, "5".into())]);
}

#[test]
fn a_cap_of_nothing_keeps_nothing() {
    let mut tombstones = Tombstones::new(0);
    assert!(insert(&mut tombstones, 1, 1, 0));
    assert_eq!(tombstones.len(), 0);
}

const STEPS: usize = if cfg!(miri) { 20 } else { 120 };

#[derive(Clone, Debug)]
enum Step {
    Delete(u8, u64),
    Set(u8, u64),
    Remove(u8),
    Expire(u64, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..24, 1u64..12).prop_map(|(n, v)| Step::Delete(n, v)),
        1 => (0u8..24, 1u64..12).prop_map(|(n, v)| Step::Set(n, v)),
        2 => (0u8..24).prop_map(Step::Remove),
        1 => (0u64..8, 1usize..6).prop_map(|(passed, most)| Step::Expire(passed, most)),
    ]
}

proptest! {
    #[test]
    fn the_list_does_what_sorting_would(steps in prop::collection::vec(any_step(), 0..STEPS)) {
        const CAP: usize = 9;
        let mut tombstones = Tombstones::new(CAP);
        // (key, version, deadline) in the order of the newest deletes.
        let mut naive: Vec<(u8, u64, u64)> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Delete(n, v) => {
                    if let Some(at) = naive.iter().position(|known| known.0 == n) {
                        naive.remove(at);
                        naive.push((n, v, now + 5));
                        let slot = tombstones.find(key(n).raw()).unwrap();
                        tombstones.renew(slot, version(v), now + 5);
                    } else {
                        naive.push((n, v, now + 5));
                        let lost = naive.len() > CAP;
                        if lost {
                            naive.remove(0);
                        }
                        prop_assert_eq!(insert(&mut tombstones, n, v, now + 5), lost);
                    }
                }
                Step::Set(n, v) => {
                    if let Some(known) = naive.iter_mut().find(|known| known.0 == n) {
                        known.1 = v;
                        tombstones.set_version(tombstones.find(key(n).raw()).unwrap(), version(v));
                    }
                }
                Step::Remove(n) => {
                    if let Some(slot) = tombstones.find(key(n).raw()) {
                        tombstones.remove(slot);
                    }
                    naive.retain(|known| known.0 != n);
                }
                Step::Expire(passed, most) => {
                    now += passed;
                    let over = naive.iter().take(most).take_while(|known| known.2 <= now).count();
                    prop_assert_eq!(tombstones.expire(now, most).len(), over);
                    naive.drain(..over);
                }
            }
            let mut expected: Vec<_> = naive.iter().map(|known| (known.0, known.1.to_string())).collect();
            expected.sort();
            prop_assert_eq!(versions(&tombstones), expected);
            prop_assert_eq!(tombstones.len(), naive.len());
        }
    }
}
