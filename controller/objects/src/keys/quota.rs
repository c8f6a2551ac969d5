//! What a key may use at most.
//!
//! As JSON it has OpenKruise's form, `{"limits": [{"dimension": "limits.cpu", "scope": "all", "limit": 4}]}`,
//! in sandboxes, thousandths of a core and MiB. People write `sandbox.count=10,limits.cpu=4` and
//! `limits.memory=8Gi`, and `sandbox.count:running=5` for what counts only the sandboxes that are not paused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The limits of a key; none is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// At most one for each dimension and scope.
    #[serde(default)]
    pub limits: Vec<Limit>,
}

/// One limit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What is counted.
    pub dimension: Dimension,
    /// Which sandboxes count.
    #[serde(default)]
    pub scope: Scope,
    /// The most there may be: sandboxes, thousandths of a core, or MiB.
    pub limit: u64,
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dimension {
    /// `sandbox.count`.
    #[serde(rename = "sandbox.count")]
    Sandboxes,
    /// `limits.cpu`, in thousandths of a core.
    #[serde(rename = "limits.cpu")]
    Cpu,
    /// `limits.memory`, in MiB.
    #[serde(rename = "limits.memory")]
    Memory,
}

/// Which sandboxes a quota counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All that live.
    #[default]
    All,
    /// Those that are not paused.
    Running,
}

/// Why a text is no quota. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// Not `NAME=AMOUNT`.
    #[error("{0:?}: expected NAME=AMOUNT, such as sandbox.count=10")]
    Form(String),
    /// The name of nothing that is counted.
    #[error("{0:?}: expected sandbox.count, limits.cpu or limits.memory")]
    Dimension(String),
    /// Another scope.
    #[error("{0:?}: expected all or running")]
    Scope(String),
    /// The amount.
    #[error("{name}: {found:?} is no amount; expected {expected}")]
    Amount {
        /// What it is the amount of.
        name: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The same twice.
    #[error("{0} has two limits")]
    Twice(&'static str),
}

impl Quota {
    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Looks for two limits of the same.
    ///
    /// # Errors
    /// [`QuotaError::Twice`].
    pub fn check(&self) -> Result<(), QuotaError> {
        for (at, limit) in self.limits.iter().enumerate() {
            let same = |other: &Limit| (other.dimension, other.scope) == (limit.dimension, limit.scope);
            if self.limits[..at].iter().any(same) {
                return Err(QuotaError::Twice(limit.dimension.as_str()));
            }
        }
        Ok(())
    }
}

impl Dimension {
    /// As people and JSON write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandbox.count",
            Self::Cpu => "limits.cpu",
            Self::Memory => "limits.memory",
        }
    }

    fn amount(self, text: &str) -> Result<u64, QuotaError> {
        let (found, expected) = match self {
            Self::Sandboxes => (text.parse().ok(), "a number"),
            Self::Cpu => (scaled(text, &[("m", 1), ("", 1000)], 1), "cores such as 4, 0.5 or 500m"),
            Self::Memory => {
                let bytes = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1_u64 << 40)];
                (scaled(text, &bytes, 1 << 20), "memory such as 512Mi or 8Gi")
            }
        };
        found.ok_or_else(|| QuotaError::Amount { name: self.as_str(), found: text.to_owned(), expected })
    }
}

/// The amount of a text with one of these units, in `of`. An amount that is not whole is no amount.
fn scaled(text: &str, units: &[(&str, u64)], of: u64) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let parts = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let number = whole.parse::<u64>().ok()?.checked_mul(parts)?.checked_add(fraction.parse().ok()?)?;
    let amount = number.checked_mul(*scale)?;
    let divisor = parts.checked_mul(of)?;
    (amount % divisor == 0).then_some(amount / divisor)
}

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut limits = Vec::new();
        for part in text.split(',') {
            let form = || QuotaError::Form(part.to_owned());
            let (name, amount) = part.split_once('=').ok_or_else(form)?;
            let (name, scope) = name.trim().split_once(':').unwrap_or((name.trim(), "all"));
            let dimension = [Dimension::Sandboxes, Dimension::Cpu, Dimension::Memory]
                .into_iter()
                .find(|dimension| dimension.as_str() == name)
                .ok_or_else(|| QuotaError::Dimension(name.to_owned()))?;
            let scope = match scope {
                "all" => Scope::All,
                "running" => Scope::Running,
                other => return Err(QuotaError::Scope(other.to_owned())),
            };
            limits.push(Limit { dimension, scope, limit: dimension.amount(amount.trim())? });
        }
        let quota = Self { limits };
        quota.check()?;
        Ok(quota)
    }
}

/// As it is written on a command line.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Limit { dimension, scope, limit }) in self.limits.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let scope = match scope {
                Scope::All => "",
                Scope::Running => ":running",
            };
            let unit = match dimension {
                Dimension::Sandboxes => "",
                Dimension::Cpu => "m",
                Dimension::Memory => "Mi",
            };
            write!(f, "{comma}{}{scope}={limit}{unit}", dimension.as_str())?;
        }
        Ok(())
    }
}
