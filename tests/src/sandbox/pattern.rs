//! The bytes of uploads and downloads, and the check that they arrived.

use hyper::body::Bytes;

/// One block of the bytes, repeated without end. Its length is prime, so that a lost, doubled or swapped
/// buffer of any usual size breaks the repetition.
static BLOCK: [u8; 65_521] = block();

#[expect(clippy::cast_possible_truncation, reason = "the low byte is the point")]
const fn block() -> [u8; 65_521] {
    let mut bytes = [0; 65_521];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (i ^ (i >> 8)) as u8;
        i += 1;
    }
    bytes
}

/// What of the repeated pattern has been seen.
#[derive(Debug)]
pub struct Pattern {
    bytes: u64,
    intact: bool,
}

impl Pattern {
    /// Nothing seen.
    #[expect(clippy::new_without_default, reason = "a pattern with nothing seen is no default of anything")]
    pub fn new() -> Self {
        Self { bytes: 0, intact: true }
    }

    /// `total` bytes of the pattern, in chunks.
    pub fn chunks(total: u64) -> impl Iterator<Item = Bytes> + Send {
        let mut left = total;
        std::iter::from_fn(move || {
            let length = usize::try_from(left.min(BLOCK.len() as u64)).expect("a block fits");
            left -= length as u64;
            (length > 0).then(|| Bytes::from_static(&BLOCK[..length]))
        })
    }

    /// Takes the next bytes of the body.
    pub fn see(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let at = usize::try_from(self.bytes % BLOCK.len() as u64).expect("less than a block");
            let length = data.len().min(BLOCK.len() - at);
            self.intact &= data[..length] == BLOCK[at..at + length];
            self.bytes += length as u64;
            data = &data[length..];
        }
    }

    /// The body broke off.
    pub fn broken(&mut self) {
        self.intact = false;
    }

    /// Bytes seen.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether each of them was the right one.
    pub fn intact(&self) -> bool {
        self.intact
    }
}
