//! Durations as Go writes them, in fields, annotations and options.

use std::time::Duration;

/// `1h30m`, `45s`, `1.5h`, `200ms`, `0`. No sign, no days.
pub fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match rest.get(..letters)? {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        rest = rest.get(letters..)?;
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let read = [
            ("1h30m", 5400.0),
            ("1m30s", 90.0),
            ("1.5h", 5400.0),
            ("200ms", 0.2),
            ("5us", 5e-6),
            ("5µs", 5e-6),
            ("7ns", 7e-9),
            ("0s", 0.0),
            ("0", 0.0),
        ];
        for (text, seconds) in read {
            assert_eq!(go_duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1d", "1.2.3s", "1 s", "1s2", "9e99h", "99999999999999999999h"] {
            assert_eq!(go_duration(text), None, "{text:?}");
        }
    }
}
