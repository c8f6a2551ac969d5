use super::*;
use proptest::prelude::*;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

#[test]
fn only_positive_canonical_decimals_are_versions() {
    for (text, error) in [
        ("", VersionError::Empty),
        ("0", VersionError::NotCanonical),
        ("00", VersionError::NotCanonical),
        ("01", VersionError::NotCanonical),
        ("rv", VersionError::NotDecimal),
        ("+1", VersionError::NotDecimal),
        ("-1", VersionError::NotDecimal),
        ("1 ", VersionError::NotDecimal),
        ("1.0", VersionError::NotDecimal),
        ("0x10", VersionError::NotDecimal),
        ("١", VersionError::NotDecimal),
        ("18446744073709551616", VersionError::TooLarge),
        (&"9".repeat(1024), VersionError::TooLarge),
    ] {
        assert_eq!(text.parse::<Version>(), Err(error), "{text:?}");
    }
    assert!("18446744073709551615".parse::<Version>().is_ok());
}

#[test]
fn versions_compare_as_numbers() {
    let ascending = ["1", "2", "9", "10", "99999999999999999", "100000000000000000", "18446744073709551615"];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(version(a).cmp(&version(b)), i.cmp(&j), "{a} {b}");
        }
    }
}

proptest! {
    #[test]
    fn order_and_text_agree_with_integers(a in 1u64.., b in 1u64.., shift in 0u32..64) {
        let (a, b) = ((a >> shift).max(1), (b >> shift).max(1));
        prop_assert_eq!(version(&a.to_string()).cmp(&version(&b.to_string())), a.cmp(&b));
        prop_assert_eq!(version(&a.to_string()).to_string(), a.to_string());
    }

    #[test]
    fn any_text_either_is_a_version_that_prints_itself_or_is_refused(text in "[0-9]{0,30}|.{0,8}") {
        if let Ok(version) = text.parse::<Version>() {
            prop_assert_eq!(version.to_string(), text);
        }
    }
}
