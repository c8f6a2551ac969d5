//! Amounts of resources, as far as two of them are compared.

use serde_json::Value;

/// Whether two amounts are equal, however they are written: `1000m` is `1`, and `1Gi` is `1024Mi`.
pub(super) fn same_quantity(one: &Value, other: &Value) -> bool {
    match (nano(one), nano(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// The amount in billionths.
fn nano(value: &Value) -> Option<i128> {
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
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(digits.checked_mul(scale)? / divisor)
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
            (json!("1e3"), json!("1k"), false),
        ] {
            assert_eq!(same_quantity(&one, &other), expected, "{one} {other}");
        }
    }
}
