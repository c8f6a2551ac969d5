//! One public key, and a signature checked with it.

use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

use super::Algorithm;

/// The numbers of a public key.
#[derive(Clone, Eq, PartialEq)]
pub(super) enum Material {
    /// Modulus and exponent, without leading zeros.
    Rsa { n: Box<[u8]>, e: Box<[u8]> },
    /// An uncompressed point.
    P256(Box<[u8]>),
    /// An uncompressed point.
    P384(Box<[u8]>),
    /// A point as RFC 8032 encodes it.
    Ed25519(Box<[u8]>),
}

impl Material {
    /// Whether keys of this type make signatures of that algorithm.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        match self {
            Self::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Self::P256(_) => algorithm == Es256,
            Self::P384(_) => algorithm == Es384,
            Self::Ed25519(_) => algorithm == EdDsa,
        }
    }

    fn signature_len(&self) -> usize {
        match self {
            Self::Rsa { n, .. } => n.len(),
            Self::P256(_) | Self::Ed25519(_) => 64,
            Self::P384(_) => 96,
        }
    }
}

/// A key of a set.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) kid: Box<str>,
    /// The only algorithm it may be used with, if it names one.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) material: Material,
    /// No other key of this process has it, but the same key in a newer set.
    pub(super) serial: u64,
}

impl Key {
    /// Whether it may be used with this algorithm.
    pub(super) fn allows(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.material.fits(algorithm)
    }

    /// Whether a signature of this key can have this length. Cheap, where checking one is not.
    pub(super) fn is_signature_len(&self, len: usize) -> bool {
        len == self.material.signature_len()
    }

    /// Whether the signature is of this key for this message. An algorithm that the key does not allow makes
    /// it wrong.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.allows(algorithm) {
            return false;
        }
        let checked = match &self.material {
            Material::Rsa { n, e } => match rsa(algorithm) {
                Some(parameters) => RsaPublicKeyComponents { n, e }.verify(parameters, message, signature),
                None => return false,
            },
            Material::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::P384(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            Material::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        };
        checked.is_ok()
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}
