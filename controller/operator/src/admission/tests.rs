use futures_util::FutureExt as _;
use parking_lot::Mutex;

use super::*;

/// A plugin with one answer, which notes that it was asked.
struct Plugin {
    name: &'static str,
    answer: Verdict,
    /// The replicas that it writes, if any.
    writes: Option<i32>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl Admission for Plugin {
    fn name(&self) -> &str {
        self.name
    }

    fn pre_create_pool<'a>(&'a self, pool: &'a mut SandboxPool) -> BoxFuture<'a, Verdict> {
        self.asked.lock().push(self.name);
        if let Some(replicas) = self.writes {
            pool.spec.replicas = replicas;
        }
        ready(self.answer.clone()).boxed()
    }

    fn pre_update_pool<'a>(
        &'a self,
        pool: &'a mut SandboxPool,
        _: &'a [Arc<Seen<EnvPod>>],
    ) -> BoxFuture<'a, Verdict> {
        self.pre_create_pool(pool)
    }

    fn pre_delete_pool<'a>(&'a self, _: &'a SandboxPool) -> BoxFuture<'a, Result<(), NotAdmitted>> {
        self.asked.lock().push(self.name);
        ready(self.answer.clone().map(drop)).boxed()
    }
}

#[derive(Default)]
struct Chain {
    plugins: Vec<Arc<dyn Admission>>,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl Chain {
    fn with(mut self, name: &'static str, answer: Verdict, writes: Option<i32>) -> Self {
        let asked = Arc::clone(&self.asked);
        self.plugins.push(Arc::new(Plugin { name, answer, writes, asked }));
        self
    }

    /// The verdict about an update, the pool's replicas after it, and who was asked.
    fn update(self) -> (Verdict, i32, Vec<&'static str>) {
        let mut pool = SandboxPool::new("p", Default::default());
        let chain = Admissions::new(self.plugins);
        let verdict = chain.pre_update_pool(&mut pool, &[]).now_or_never().unwrap();
        (verdict, pool.spec.replicas, self.asked.lock().clone())
    }
}

fn cap(replicas: i32, reason: &str) -> Admitted {
    let (reason, message) = (reason.to_owned(), String::new());
    Admitted { cap: Some(Cap { replicas, reason, message }), ..Admitted::default() }
}

fn wait(seconds: u64) -> Admitted {
    Admitted { retry_after: Some(Duration::from_secs(seconds)), ..Admitted::default() }
}

#[test]
fn without_plugins_everything_is_admitted() {
    let (verdict, _, asked) = Chain::default().update();
    let admitted = verdict.unwrap();
    assert_eq!((admitted.clone(), admitted.admits(7), asked), (Admitted::default(), 7, vec![]));
}

#[test]
fn the_smallest_cap_counts_with_its_reason_and_the_longest_wait() {
    let chain = Chain::default()
        .with("a", Ok(cap(5, "Five")), None)
        .with("b", Ok(cap(3, "Three")), None)
        .with("c", Ok(cap(3, "AlsoThree")), None)
        .with("d", Ok(wait(30)), None)
        .with("e", Ok(wait(10)), None);
    let (verdict, _, asked) = chain.update();
    let admitted = verdict.unwrap();
    assert_eq!(admitted.cap.as_ref().unwrap().reason, "Three");
    assert_eq!(admitted.retry_after, Some(Duration::from_secs(30)));
    assert_eq!((admitted.admits(10), admitted.admits(2), asked.len()), (3, 2, 5));
    assert_eq!(cap(-1, "Debt").admits(4), 0, "no fewer than none");
}

#[test]
fn the_first_refusal_ends_it() {
    for refusal in [
        NotAdmitted::Insufficient { message: "m".to_owned(), retry_after: Some(Duration::from_secs(5)) },
        NotAdmitted::Invalid { message: "m".to_owned() },
        NotAdmitted::Internal { message: "m".to_owned() },
    ] {
        let chain = || {
            Chain::default()
                .with("a", Ok(Admitted::default()), Some(4))
                .with("b", Err(refusal.clone()), None)
                .with("c", Ok(Admitted::default()), Some(9))
        };
        let (verdict, replicas, asked) = chain().update();
        assert_eq!((verdict, replicas, asked), (Err(refusal.clone()), 4, vec!["a", "b"]));
        let Chain { plugins, asked } = chain();
        let pool = SandboxPool::new("p", Default::default());
        let deleted = Admissions::new(plugins).pre_delete_pool(&pool).now_or_never().unwrap();
        assert_eq!((deleted, asked.lock().clone()), (Err(refusal), vec!["a", "b"]));
    }
}

#[test]
fn what_one_changes_the_next_sees_and_one_change_is_a_change() {
    struct Doubles;
    impl Admission for Doubles {
        fn name(&self) -> &str {
            "doubles"
        }
        fn pre_create_pool<'a>(&'a self, pool: &'a mut SandboxPool) -> BoxFuture<'a, Verdict> {
            pool.spec.replicas *= 2;
            ready(Ok(Admitted { updated: true, ..Admitted::default() })).boxed()
        }
    }
    let mut chain = Chain::default().with("a", Ok(Admitted::default()), Some(3));
    chain.plugins.push(Arc::new(Doubles));
    chain = chain.with("b", Ok(Admitted::default()), None);
    let mut pool = SandboxPool::new("p", Default::default());
    let admissions = Admissions::new(chain.plugins);
    let admitted = admissions.pre_create_pool(&mut pool).now_or_never().unwrap().unwrap();
    assert_eq!((pool.spec.replicas, admitted.updated, admissions.is_empty()), (6, true, false));
}
