//! One `&mut` at a time for objects that Envoy reaches from several threads and from inside their own hooks.
//!
//! A cluster has hooks with `&mut self` on the main thread and hooks with `&self` on every worker, and Envoy
//! nests hooks (finishing a cluster's initialisation makes a load balancer on the spot). A [`Gate`] holds
//! such an object: threads wait for each other, a nested call that would alias is refused, and a nested
//! shared call under a shared one goes through without locking again, which a reader-writer lock alone would
//! not promise.

use std::cell::RefCell;
use std::sync::{PoisonError, RwLock};

thread_local! {
    /// The gates this thread has passed and not yet left, outermost first.
    static PASSED: RefCell<Vec<Passage>> = const { RefCell::new(Vec::new()) };
}

struct Passage {
    gate: *const (),
    /// Where the object is, if the passage is shared.
    shared: Option<*const ()>,
}

/// The call was nested in one of the same object that it cannot run beside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reentrant;

pub(crate) struct Gate<T: ?Sized> {
    lock: RwLock<Box<T>>,
}

impl<T: ?Sized> Gate<T> {
    pub(crate) fn new(value: Box<T>) -> Self {
        Self { lock: RwLock::new(value) }
    }

    fn id(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// How this thread has passed the gate already: not at all, or with this passage's `shared`.
    fn passed(&self) -> Option<Option<*const ()>> {
        PASSED.with_borrow(|all| all.iter().find(|p| std::ptr::addr_eq(p.gate, self.id())).map(|p| p.shared))
    }

    /// Runs `body` with the object to itself.
    pub(crate) fn exclusive<R>(&self, body: impl FnOnce(&mut T) -> R) -> Result<R, Reentrant> {
        if self.passed().is_some() {
            return Err(Reentrant);
        }
        let mut value = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        let _passage = Pass::through(Passage { gate: self.id(), shared: None });
        Ok(body(&mut value))
    }

    /// Runs `body` beside other shared calls.
    pub(crate) fn shared<R>(&self, body: impl FnOnce(&T) -> R) -> Result<R, Reentrant> {
        match self.passed() {
            Some(None) => Err(Reentrant),
            Some(Some(value)) => {
                // SAFETY: the pointer was taken from a read guard of this very gate that is further up this
                // thread's stack: it is released only after this call has returned, so the box is there and
                // nobody writes to it.
                let value = unsafe { &*value.cast::<Box<T>>() };
                Ok(body(value))
            }
            None => {
                let value = self.lock.read().unwrap_or_else(PoisonError::into_inner);
                let at: *const Box<T> = &*value;
                let _passage = Pass::through(Passage { gate: self.id(), shared: Some(at.cast()) });
                Ok(body(&value))
            }
        }
    }
}

/// Leaves the gate when dropped, also by a panic.
struct Pass;

impl Pass {
    fn through(passage: Passage) -> Self {
        PASSED.with_borrow_mut(|all| all.push(passage));
        Self
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // Passages nest, so the innermost is ours.
        PASSED.with_borrow_mut(Vec::pop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_calls_nest() {
        let gate = Gate::new(Box::new(7));
        assert_eq!(gate.shared(|outer| gate.shared(|inner| *inner + *outer)), Ok(Ok(14)));
    }

    #[test]
    fn nothing_nests_in_an_exclusive_call() {
        let gate = Gate::new(Box::new(7));
        let nested = gate.exclusive(|_| (gate.shared(|v| *v), gate.exclusive(|v| *v)));
        assert_eq!(nested, Ok((Err(Reentrant), Err(Reentrant))));
    }

    #[test]
    fn an_exclusive_call_does_not_nest_in_a_shared_one() {
        let gate = Gate::new(Box::new(7));
        assert_eq!(gate.shared(|_| gate.exclusive(|v| *v)), Ok(Err(Reentrant)));
    }

    #[test]
    fn two_gates_do_not_know_each_other() {
        let (a, b) = (Gate::new(Box::new(1)), Gate::new(Box::new(2)));
        assert_eq!(a.exclusive(|x| b.exclusive(|y| *x + *y)), Ok(Ok(3)));
    }

    #[test]
    fn a_panic_leaves_the_gate_open() {
        let gate = Gate::new(Box::new(7));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = gate.exclusive(|_| panic!("inside"));
        }));
        assert!(panicked.is_err());
        assert_eq!(gate.exclusive(|v| *v), Ok(7));
    }

    #[test]
    fn threads_take_turns() {
        let gate = Gate::new(Box::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        gate.exclusive(|v| *v += 1).expect("not nested");
                    }
                });
            }
        });
        assert_eq!(gate.shared(|v| *v), Ok(4000));
    }
}
