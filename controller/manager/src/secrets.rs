//! Random text that nobody can guess: the IDs and tokens of sandboxes, and the names that must not meet.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use sandgate_cache::Random;

use crate::{Error, ErrorKind};

/// The characters of IDs and of names: what a label, a host name and an object's name may have.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// The length of a sandbox's ID: more than 100 bits.
const ID: usize = 20;
/// The length of what a name ends with.
const SUFFIX: usize = 10;

/// Where random text comes from. The simulation seeds it; everybody else takes [`SystemSecrets`].
pub trait Secrets: Send + Sync + 'static {
    /// Fills the bytes with random ones.
    ///
    /// # Errors
    /// If the machine has none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error>;

    /// The ID of a sandbox: letters and digits, as a label and a host name may have them.
    ///
    /// # Errors
    /// See [`fill`](Self::fill).
    fn id(&self) -> Result<String, Error> {
        letters(self, ID)
    }

    /// What a name ends with so that it meets no other.
    ///
    /// # Errors
    /// See [`fill`](Self::fill).
    fn suffix(&self) -> Result<String, Error> {
        letters(self, SUFFIX)
    }

    /// A token: 32 hexadecimal digits.
    ///
    /// # Errors
    /// See [`fill`](Self::fill).
    fn token(&self) -> Result<String, Error> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(hex(&bytes))
    }
}

/// The random numbers of the machine.
#[derive(Clone, Debug)]
pub struct SystemSecrets(SystemRandom);

impl SystemSecrets {
    /// The random numbers of the machine.
    pub fn new() -> Self {
        Self(SystemRandom::new())
    }
}

impl Default for SystemSecrets {
    fn default() -> Self {
        Self::new()
    }
}

impl Secrets for SystemSecrets {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let none = |_| Error::new(ErrorKind::Internal, "this machine has no random numbers");
        self.0.fill(bytes).map_err(none)
    }
}

/// Text that one seed gives again, for tests and for the simulation. Anybody who has the seed can guess it.
#[derive(Debug)]
pub struct SeededSecrets(Mutex<Random>);

impl SeededSecrets {
    /// The text of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Random::seeded(seed)))
    }
}

impl Secrets for SeededSecrets {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut random = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            let drawn = random.number().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// So many letters, each as likely as any other: bytes that would favour the first letters are drawn again.
fn letters<S: Secrets + ?Sized>(secrets: &S, count: usize) -> Result<String, Error> {
    const FAIR: u8 = 252;
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let mut bytes = [0; 32];
        secrets.fill(&mut bytes)?;
        let fair = bytes.iter().filter(|byte| **byte < FAIR);
        let drawn = fair.map(|byte| char::from(ALPHABET[usize::from(byte % 36)]));
        text.extend(drawn.take(count - text.len()));
    }
    Ok(text)
}
