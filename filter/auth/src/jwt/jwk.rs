//! One JSON Web Key: what it says, and whether it is a key for signatures of tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::agreement;
use ring::rand::SystemRandom;
use serde::Deserialize;

use super::json::Present;
use super::key::Material;
use super::{Algorithm, KeyFault, UnusableReason};

/// The members that are looked at.
#[derive(Deserialize)]
pub(super) struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    // Everything that only a private or a symmetric key has, in any type that is registered.
    #[serde(default)]
    d: Present,
    #[serde(default)]
    p: Present,
    #[serde(default)]
    q: Present,
    #[serde(default)]
    dp: Present,
    #[serde(default)]
    dq: Present,
    #[serde(default)]
    qi: Present,
    #[serde(default)]
    oth: Present,
    #[serde(default, rename = "priv")]
    private: Present,
    #[serde(default)]
    k: Present,
}

/// What becomes of a key that does not refuse its set.
pub(super) enum Read {
    Usable { kid: String, algorithm: Option<Algorithm>, material: Material },
    Unusable { kid: String, reason: UnusableReason },
}

impl Jwk {
    pub(super) fn read(self) -> Result<Read, KeyFault> {
        let kid = self.kid.as_deref().filter(|kid| !kid.is_empty()).ok_or(KeyFault::NoKid)?.to_owned();
        if self.kty == "oct" || self.k.0 {
            return Err(KeyFault::Symmetric);
        }
        let private = [self.d, self.p, self.q, self.dp, self.dq, self.qi, self.oth, self.private];
        if private.iter().any(|member| member.0) {
            return Err(KeyFault::Private);
        }
        // An empty text or list says nothing, as it does for OpenKruise's gateway.
        if self.usage.as_deref().is_some_and(|usage| !usage.is_empty() && usage != "sig") {
            return Err(KeyFault::Use);
        }
        if self.key_ops.as_deref().is_some_and(|ops| !ops.is_empty() && !ops.iter().any(|op| op == "verify"))
        {
            return Err(KeyFault::KeyOps);
        }
        let material = match self.material()? {
            Ok(material) => material,
            Err(reason) => return Ok(Read::Unusable { kid, reason }),
        };
        let algorithm = match self.alg.as_deref().filter(|alg| !alg.is_empty()) {
            None => None,
            Some(name) => match Algorithm::of_name(name) {
                Some(algorithm) if material.fits(algorithm) => Some(algorithm),
                Some(_) => return Err(KeyFault::Algorithm),
                // These are known too, and never for a key of these types.
                None if matches!(name, "none" | "HS256" | "HS384" | "HS512" | "ES512") => {
                    return Err(KeyFault::Algorithm);
                }
                None => return Ok(Read::Unusable { kid, reason: UnusableReason::Algorithm }),
            },
        };
        Ok(Read::Usable { kid, algorithm, material })
    }

    fn material(&self) -> Result<Result<Material, UnusableReason>, KeyFault> {
        let curve = self.crv.as_deref();
        match &*self.kty {
            "RSA" => self.rsa(),
            "EC" => match curve {
                Some("P-256") => self.point(32, &agreement::ECDH_P256).map(|point| Ok(Material::P256(point))),
                Some("P-384") => self.point(48, &agreement::ECDH_P384).map(|point| Ok(Material::P384(point))),
                None | Some("" | "Ed25519" | "Ed448" | "X25519" | "X448") => Err(KeyFault::Curve),
                Some(_) => Ok(Err(UnusableReason::Curve)),
            },
            "OKP" => match curve {
                Some("Ed25519") => {
                    let x = number(self.x.as_deref())?;
                    if x.len() == 32 { Ok(Ok(Material::Ed25519(x.into()))) } else { Err(KeyFault::Material) }
                }
                None | Some("" | "P-256" | "P-384" | "P-521" | "secp256k1") => Err(KeyFault::Curve),
                Some(_) => Ok(Err(UnusableReason::Curve)),
            },
            _ => Ok(Err(UnusableReason::Type)),
        }
    }

    fn rsa(&self) -> Result<Result<Material, UnusableReason>, KeyFault> {
        // Some providers write leading zeros, which ring does not take.
        let n = without_zeros(&number(self.n.as_deref())?);
        let e = without_zeros(&number(self.e.as_deref())?);
        let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        if !is_odd(&n) || !is_odd(&e) || *e == [1] {
            return Err(KeyFault::Material);
        }
        match (bits(&n), bits(&e)) {
            (..2048, _) => Err(KeyFault::Weak),
            (2048..=8192, ..=33) => Ok(Ok(Material::Rsa { n, e })),
            _ => Ok(Err(UnusableReason::TooLarge)),
        }
    }

    /// The point of `x` and `y`, each as long as the curve has it (RFC 7518, 6.2.1.2).
    fn point(&self, len: usize, curve: &'static agreement::Algorithm) -> Result<Box<[u8]>, KeyFault> {
        let (x, y) = (number(self.x.as_deref())?, number(self.y.as_deref())?);
        if x.len() != len || y.len() != len {
            return Err(KeyFault::Material);
        }
        let point = [&[4], &*x, &*y].concat();
        // ring looks whether a point is on its curve when it is used. A key agreement is a use without a
        // message, and nothing is done with what comes out.
        let random = SystemRandom::new();
        agreement::EphemeralPrivateKey::generate(curve, &random)
            .and_then(|own| {
                agreement::agree_ephemeral(own, &agreement::UnparsedPublicKey::new(curve, &point), |_| ())
            })
            .map_err(|_| KeyFault::Material)?;
        Ok(point.into())
    }
}

fn number(text: Option<&str>) -> Result<Vec<u8>, KeyFault> {
    // Some providers pad.
    let text = text.ok_or(KeyFault::Material)?.trim_end_matches('=');
    URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyFault::Material)
}

fn without_zeros(number: &[u8]) -> Box<[u8]> {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    number.get(zeros..).unwrap_or_default().into()
}

/// Of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}
