//! Amounts of resources, as Kubernetes writes them.

use serde_json::Value;

/// Whether two amounts are equal, however they are written: `1000m` is `1`, and `1Gi` is `1024Mi`.
pub fn same_quantity(one: &Value, other: &Value) -> bool {
    match (nano(one), nano(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// An amount of CPU in thousandths of a core. A part of one counts as one.
pub fn millis(value: &Value) -> Option<u64> {
    rounded_up(nano(value)?, 1_000_000)
}

/// An amount of memory or disk in MiB. A part of one is left out.
pub fn mebibytes(value: &Value) -> Option<u64> {
    u64::try_from(nano(value)? / (1_000_000_000 << 20)).ok()
}

fn rounded_up(nano: i128, unit: i128) -> Option<u64> {
    u64::try_from(nano.checked_add(unit - 1)? / unit).ok()
}

/// The amount in billionths: what amounts are added and compared by.
pub fn nano(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let at = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 1_000_000_000_000,
        "M" => 1_000_000_000_000_000,
        "G" => 1_000_000_000_000_000_000,
        "T" => 1_000_000_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000_000_000,
        "Ki" => 1_000_000_000 << 10,
        "Mi" => 1_000_000_000 << 20,
        "Gi" => 1_000_000_000 << 30,
        "Ti" => 1_000_000_000 << 40,
        "Pi" => 1_000_000_000 << 50,
        other => exponent(other)?,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(digits.checked_mul(scale)? / divisor)
}

/// The scale of `e3` or `E3`: a power of ten.
fn exponent(suffix: &str) -> Option<i128> {
    let power = suffix.strip_prefix(['e', 'E'])?;
    10_i128.checked_pow(9_u32.checked_add_signed(power.parse().ok()?)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_compared_by_value() {
        for (one, other, expected) in [
            (json!("1000m"), json!("1"), true),
            (json!("1"), json!(1), true),
            (json!("0.5"), json!("500m"), true),
            (json!("1Gi"), json!("1024Mi"), true),
            (json!("1G"), json!("1000M"), true),
            (json!("1G"), json!("1Gi"), false),
            (json!("100m"), json!("200m"), false),
            (json!("100m"), Value::Null, false),
            (json!("1e3"), json!("1e3"), true),
            (json!("1e3"), json!("1k"), true),
            (json!("1e-3"), json!("1m"), true),
            (json!("1x"), json!("1"), false),
        ] {
            assert_eq!(same_quantity(&one, &other), expected, "{one} {other}");
        }
    }

    #[test]
    fn amounts_are_read_in_the_units_that_people_count_in() {
        for (amount, cores) in [("500m", 500), ("2", 2000), ("1.5", 1500), ("100u", 1), ("0", 0)] {
            assert_eq!(millis(&json!(amount)), Some(cores), "{amount}");
        }
        for (amount, memory) in [("1Gi", 1024), ("512Mi", 512), ("1G", 953), ("1048576", 1), ("1Ki", 0)] {
            assert_eq!(mebibytes(&json!(amount)), Some(memory), "{amount}");
        }
        for amount in [json!("-1"), json!("many"), json!(null), json!("")] {
            assert_eq!(millis(&amount), None, "{amount}");
        }
    }
}
