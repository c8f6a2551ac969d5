//! Numbers that look random and are the same on every run.

/// A splitmix64 sequence.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// The next number below `end`, close enough to even for a bench.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next_u64() >> 11).unwrap_or(0) % end.max(1)
    }

    /// Puts a slice in another order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for at in (1..slice.len()).rev() {
            slice.swap(at, self.below(at + 1));
        }
    }
}

/// One step of the sequence: also a way to make many unlike numbers from like ones.
pub fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
