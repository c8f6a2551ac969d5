use proptest::prelude::*;
use sandgate_cache::Key;
use sandgate_objects::sandbox_env::resources::SandboxEnv;

use super::world::*;
use crate::router::EnvRouter;
use crate::router::decide::{Ranked, sort};

/// What is told of one environment.
#[derive(Clone, Debug)]
enum Told {
    Upsert { uid: usize, version: u64 },
    Delete { uid: usize, version: u64 },
}

/// A history: objects of one name, one after the other, each with versions and an end. Who tells may leave
/// any of it out, but the last word is told.
fn history() -> impl Strategy<Value = (Vec<Told>, Option<u64>)> {
    let object = (1..4_u64, any::<bool>(), 0..3_u64);
    (prop::collection::vec(object, 1..4), any::<bool>()).prop_map(|(objects, is_ended)| {
        let (mut told, mut version, mut lives) = (Vec::new(), 0, None);
        let last = objects.len() - 1;
        for (uid, (versions, tells_old_delete, back)) in objects.into_iter().enumerate() {
            for _ in 0..versions {
                version += 1;
                told.push(Told::Upsert { uid, version });
            }
            lives = Some(version);
            if uid < last || is_ended {
                let seen = version - back.min(versions - 1);
                version += 1;
                // A hook tells the version that it saw last, an informer that of the delete.
                told.push(Told::Delete { uid, version: if tells_old_delete { seen } else { version } });
                lives = None;
            }
        }
        (told, lives)
    })
}

fn env_of(uid: usize, version: u64) -> SandboxEnv {
    let mut env = env("e", version, &[member(&format!("v{version}"))]);
    env.metadata.uid = Some(format!("u{uid}"));
    env
}

fn feed(router: &EnvRouter, told: &Told) {
    match *told {
        Told::Upsert { uid, version } => tell(router, &env_of(uid, version)),
        Told::Delete { uid, version } => {
            let version = version.to_string().parse().unwrap();
            router.delete(&Key::new("ns", "e"), Some(&format!("u{uid}")), &version)
        }
    };
}

proptest! {
    #[test]
    fn informer_and_hook_converge_in_whatever_order_they_tell(
        ((told, lives), shuffled) in history().prop_flat_map(|(told, lives)| {
            // Everything is told twice, once by each.
            let twice: Vec<Told> = told.iter().chain(&told).cloned().collect();
            (Just((told, lives)), Just(twice).prop_shuffle())
        })
    ) {
        let expected = lives.map_or("NotFound(Env)".to_owned(), |version| format!("v{version}"));
        let (one, other) = (router(), router());
        told.iter().for_each(|told| feed(&one, told));
        shuffled.iter().for_each(|told| feed(&other, told));
        prop_assert_eq!(routed(&one, &wish("e"), &Loads::default()), expected.clone());
        prop_assert_eq!(routed(&other, &wish("e"), &Loads::default()), expected);
    }

    #[test]
    fn the_ranking_is_a_total_order(
        members in prop::collection::vec((-3..4_i32, 0..5_i32, 0..4_i32, 0..4_i32, any::<bool>()), 2..24),
        queues in prop::collection::vec(0..4_usize, 24),
        seed in any::<u64>(),
    ) {
        let members: Vec<Of> = members
            .iter()
            .enumerate()
            .map(|(number, &(priority, idle, max, desired, saturated))| {
                let of = member(&format!("m{number:02}")).priority(priority).idle(idle).max(max).desired(desired);
                if saturated { of.saturated(5) } else { of }
            })
            .collect();
        let loads: Vec<(String, usize, usize)> = members
            .iter()
            .zip(&queues)
            .map(|(of, queued)| (of.0.name.clone(), usize::try_from(of.1.idle_count).unwrap(), *queued))
            .collect();
        let loads: Vec<(&str, usize, usize)> =
            loads.iter().map(|(name, idle, queued)| (name.as_str(), *idle, *queued)).collect();
        let loads = Loads::of(&loads);
        let mut turned = members.clone();
        turned.rotate_left(usize::try_from(seed % members.len() as u64).unwrap());
        let router = knows(&env("e", 1, &members));
        let ranking = routed(&router, &wish("e"), &loads);
        prop_assert_eq!(&ranking, &of_members(&turned, &loads), "the order of the members is no matter");
        // Each pair compares one way, which is the way of the scores; what is not ranked is rejected.
        let explained = router.explain(&wish("e"), now(), &loads).unwrap();
        let ranked: Vec<_> = explained.iter().filter(|explained| explained.rank.is_some()).collect();
        for pair in ranked.windows(2) {
            let key = |at: usize| (-pair[at].score.total(), pair[at].pool.clone());
            prop_assert!(key(0) < key(1));
        }
        let names: Vec<&str> = ranked.iter().map(|explained| &*explained.pool).collect();
        prop_assert_eq!(names.join(" "), ranking, "what is explained is what is done");
        prop_assert!(explained.iter().all(|explained| explained.rank.is_some() || explained.rejected.is_some()));
    }

    #[test]
    fn sorting_leaves_no_two_the_other_way_round(scores in prop::collection::vec(-3..4_i64, 0..30)) {
        let mut ranked: Vec<Ranked> =
            scores.iter().enumerate().map(|(member, &score)| Ranked { score, member }).rev().collect();
        sort(&mut ranked);
        for pair in ranked.windows(2) {
            prop_assert!((-pair[0].score, pair[0].member) < (-pair[1].score, pair[1].member));
        }
    }
}
