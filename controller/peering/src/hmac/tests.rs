use proptest::prelude::*;

use super::{Claim, HmacKey, SCHEME, hex};

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

fn key() -> HmacKey {
    HmacKey::new("main", KEY).unwrap()
}

#[test]
fn what_is_signed_is_verified_with_everything_it_covers() {
    let header = key().sign("POST", "/refresh", b"{}", 1_700_000_000).unwrap();
    let claim = Claim::parse(header.as_bytes()).unwrap();
    let proof = claim.verify(&[key()], "POST", "/refresh").unwrap();
    assert!(proof.covers(b"{}") && !proof.covers(b"{ }"));
    assert_eq!(proof.time, 1_700_000_000);
    assert!(claim.verify(&[key()], "PUT", "/refresh").is_none());
    assert!(claim.verify(&[key()], "POST", "/refresh?").is_none());
    assert!(claim.verify(&[], "POST", "/refresh").is_none());
    assert!(claim.verify(&[HmacKey::new("main", &KEY.repeat(2)).unwrap()], "POST", "/refresh").is_none());
}

#[test]
fn the_signature_is_the_one_that_openssl_makes() {
    // printf 'SANDGATE-HMAC-SHA256\nmain\nPOST\n/refresh\n1700000000\n000102030405060708090a0b0c0d0e0f\nBODY'
    // | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    let body = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let mac = "212030beb473fe3b6ced9d1376fc8162947ce64fc44cc7d0f3c14e691388159b";
    let header = format!(
        "{SCHEME} key=main, time=1700000000, nonce=000102030405060708090a0b0c0d0e0f, body={body}, mac={mac}"
    );
    let proof = Claim::parse(header.as_bytes()).unwrap().verify(&[key()], "POST", "/refresh").unwrap();
    assert!(proof.covers(b"{}"));
    assert_eq!(proof.nonce, 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
}

#[test]
fn a_nonce_is_another_each_time() {
    let sign = || key().sign("POST", "/refresh", b"", 1).unwrap();
    assert_ne!(sign(), sign());
}

#[test]
fn a_key_has_enough_bytes_and_is_never_shown() {
    assert!(HmacKey::new("main", &KEY[1..]).is_err());
    assert!(HmacKey::new("main", &[0; 4097]).is_err());
    let shown = format!("{:?}", key());
    assert!(shown.contains("main") && !shown.contains("0123") && !shown.contains(&hex(KEY)), "{shown}");
}

#[test]
fn line_ends_at_the_end_of_a_key_file_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let header = key().sign("POST", "/", b"", 1).unwrap();
    for end in ["", "\n", "\r\n", "\n\n"] {
        std::fs::write(&file, [KEY, end.as_bytes()].concat()).unwrap();
        let key = HmacKey::read("main", &file).unwrap();
        assert!(Claim::parse(header.as_bytes()).unwrap().verify(&[key], "POST", "/").is_some(), "{end:?}");
    }
    std::fs::write(&file, "\n").unwrap();
    assert!(HmacKey::read("main", &file).unwrap_err().to_string().contains("key: a key has"));
    assert!(HmacKey::read("main", &folder.path().join("none")).is_err());
}

#[test]
fn only_one_spelling_is_read() {
    let good = key().sign("POST", "/", b"", 7).unwrap();
    assert!(Claim::parse(good.as_bytes()).is_some());
    let bad = [
        good.to_lowercase(),
        good.replace("key=", "id="),
        good.replace(", time=7", ""),
        good.replace("time=7", "time=+7"),
        good.replace("time=7", "time="),
        good.replace("time=7", "time=99999999999999999999"),
        good.replace("nonce=", "nonce=0"),
        good.replace("mac=", "mac=00"),
        good.replace("mac=", "mac=g"),
        format!("{good}, mac=00"),
        format!("{good},"),
        format!(" {good}"),
        good.replace(SCHEME, &format!("{SCHEME}X")),
    ];
    for bad in bad {
        assert_eq!(Claim::parse(bad.as_bytes()), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_header_panics_and_none_that_was_changed_is_believed(
        at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()
    ) {
        let header = key().sign("POST", "/refresh", b"{}", 1_700_000_000).unwrap().into_bytes();
        let mut changed = header.clone();
        changed[at.index(header.len())] = byte;
        for bytes in [&changed[..], &header[..cut.index(header.len())]] {
            let proof = Claim::parse(bytes).and_then(|claim| claim.verify(&[key()], "POST", "/refresh"));
            prop_assert!(proof.is_none() || bytes == header, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_claim_unless_they_have_its_shape(bytes: Vec<u8>, text in "SANDGATE-HMAC-SHA256 [a-z=, 0-9]{0,80}") {
        for input in [&bytes[..], text.as_bytes()] {
            prop_assert!(Claim::parse(input).is_none());
        }
    }
}
