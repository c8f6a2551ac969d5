//! Names for the children of an object that makes many.

use std::sync::Arc;

use crate::revision::ALPHABET;
use crate::{Key, Random};

/// A pod's name is also the value of a label.
const MAX_NAME: usize = 63;
/// How many random characters a name ends with.
const RANDOM: usize = 5;

/// A name for a child: the owner's name, as much as fits, and random characters.
pub(crate) fn child_key(owner: &Key, random: &mut Random) -> Key {
    let end: String = (0..RANDOM)
        .map(|_| {
            let drawn = random.number() % ALPHABET.len() as u64;
            char::from(ALPHABET[usize::try_from(drawn).unwrap_or_default()])
        })
        .collect();
    let most = owner.name.floor_char_boundary(MAX_NAME - RANDOM - 1);
    let start = owner.name[..most].trim_end_matches(['-', '.']);
    Key { namespace: Arc::clone(&owner.namespace), name: format!("{start}-{end}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_so_that_the_random_part_fits() {
        let mut random = Random::seeded(1);
        for (owner, start) in
            [("base".to_owned(), "base-".to_owned()), ("a".repeat(200), "a".repeat(57) + "-")]
        {
            let key = child_key(&Key::new("ns", &owner), &mut random);
            assert!(key.name.starts_with(&start) && key.name.len() == start.len() + 5, "{}", key.name);
        }
        let dotted = format!("{}.b", "a".repeat(56));
        assert!(!child_key(&Key::new("ns", &dotted), &mut random).name.contains(".-"));
    }

    #[test]
    fn one_seed_gives_one_row_of_names() {
        let names = |seed| {
            let mut random = Random::seeded(seed);
            (0..3).map(|_| child_key(&Key::new("ns", "base"), &mut random).name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }
}
