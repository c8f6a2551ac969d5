//! What callgrind writes, as far as it is needed: who spent how much, and who called whom for how much.

use std::collections::HashMap;

/// Functions by number, as callgrind numbers them.
#[derive(Debug, Default)]
pub(super) struct Profile {
    names: HashMap<u64, String>,
    own: HashMap<u64, u64>,
    /// By caller, then by callee.
    calls: HashMap<u64, HashMap<u64, u64>>,
}

impl Profile {
    /// Reads a dump with one event and positions by line. `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut profile = Self::default();
        let (mut function, mut callee) = (0, 0);
        let mut of_a_call = false;
        text.starts_with("# callgrind format").then_some(())?;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("fn=") {
                function = profile.name(rest)?;
            } else if let Some(rest) = line.strip_prefix("cfn=") {
                callee = profile.name(rest)?;
            } else if line.starts_with("calls=") {
                of_a_call = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                // A line number, which may be relative or missing for the same, and what was spent there.
                let cost = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
                let spent = if std::mem::take(&mut of_a_call) {
                    profile.calls.entry(function).or_default().entry(callee).or_default()
                } else {
                    profile.own.entry(function).or_default()
                };
                *spent += cost;
            }
        }
        Some(profile)
    }

    /// `(7) name` the first time, `(7)` from then on.
    fn name(&mut self, text: &str) -> Option<u64> {
        let (number, name) = text.strip_prefix('(')?.split_once(')')?;
        let number = number.parse().ok()?;
        if !name.trim().is_empty() {
            self.names.insert(number, name.trim().to_owned());
        }
        Some(number)
    }

    pub(super) fn total(&self) -> u64 {
        self.own.values().sum()
    }

    pub(super) fn own(&self, function: u64) -> u64 {
        self.own.get(&function).copied().unwrap_or_default()
    }

    pub(super) fn name_of(&self, function: u64) -> &str {
        self.names.get(&function).map_or("?", String::as_str)
    }

    /// What a function and all it called spent.
    pub(super) fn inclusive(&self, function: u64) -> u64 {
        self.own(function) + self.called_by(function).map(|(_, cost)| cost).sum::<u64>()
    }

    /// Whom a function called, and for how much.
    pub(super) fn called_by(&self, function: u64) -> impl Iterator<Item = (u64, u64)> {
        self.calls.get(&function).into_iter().flatten().map(|(callee, cost)| (*callee, *cost))
    }

    /// The functions whose names begin so, and what each spent with all it called; the dearest first.
    pub(super) fn named(&self, prefix: &str) -> Vec<u64> {
        let mut found: Vec<u64> = self
            .names
            .iter()
            .filter(|(_, name)| name.starts_with(prefix))
            .map(|(number, _)| *number)
            .collect();
        found.retain(|function| self.inclusive(*function) > 0);
        found.sort_by_key(|function| (std::cmp::Reverse(self.inclusive(*function)), *function));
        found
    }

    pub(super) fn inclusive_of(&self, prefix: &str) -> Vec<(&str, u64)> {
        self.named(prefix)
            .into_iter()
            .map(|function| (self.name_of(function), self.inclusive(function)))
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const DUMP: &str = "\
# callgrind format
positions: line
events: Ir

ob=(1) /lib/module.so
fl=(1) hooks.rs
fn=(1) hook_one
10 5
+2 3
cfi=(2) other.rs
cfn=(2) decide
calls=4 20
* 40
fi=(3) inlined.rs
7 2
fe=(1)
fn=(2)
20 25
cfn=(3) memcpy
calls=4 0
20 15
fn=(3)
0 15
fn=(4) hook_two
3 1

totals: 51
";

    #[test]
    fn costs_are_summed_by_function_and_by_call() {
        let profile = Profile::parse(DUMP).expect("a dump");
        assert_eq!(profile.total(), 51);
        assert_eq!(profile.inclusive_of("hook_"), [("hook_one", 50), ("hook_two", 1)]);
        assert_eq!(profile.own(1), 10, "what was inlined is its own");
        assert_eq!(profile.called_by(2).collect::<Vec<_>>(), [(3, 15)]);
        assert_eq!(Profile::parse("something else").map(|profile| profile.total()), None);
    }
}
