use std::collections::BTreeSet;

use super::*;

#[test]
fn ids_and_suffixes_are_letters_and_digits_and_tokens_are_hexadecimal() {
    let secrets = SystemSecrets::new();
    let (id, suffix, token) = (secrets.id().unwrap(), secrets.suffix().unwrap(), secrets.token().unwrap());
    assert_eq!((id.len(), suffix.len(), token.len()), (20, 10, 32));
    assert!((id + &suffix).bytes().all(|byte| ALPHABET.contains(&byte)));
    assert!(token.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
}

#[test]
fn one_seed_gives_one_row_of_ids_and_no_id_twice() {
    let row = |seed| {
        let secrets = SeededSecrets::new(seed);
        (0..100).map(|_| secrets.id().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(row(1), row(1));
    assert_ne!(row(1), row(2));
    assert_eq!(row(1).into_iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn every_letter_is_drawn() {
    let secrets = SeededSecrets::new(3);
    let drawn: BTreeSet<_> = (0..100).flat_map(|_| secrets.id().unwrap().into_bytes()).collect();
    assert_eq!(drawn.len(), ALPHABET.len());
}
