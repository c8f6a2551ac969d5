//! Durations as Go writes them, which OpenKruise's users know.

use std::time::Duration;

/// `1h30m`, `45s`, `1.5h`, `200ms`. No sign, no days.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match rest.get(..letters)? {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        rest = rest.get(letters..)?;
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    (!text.is_empty()).then_some(sum)
}
