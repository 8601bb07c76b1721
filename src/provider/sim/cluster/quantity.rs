//! Kubernetes quantities as whole numbers: CPU in thousandths, as Kueue counts it, everything else in ones.

use serde_json::Value;

/// The amount of a resource, written as a number or as a text such as `10Gi`. None for what is no quantity.
pub fn amount(resource: &str, written: &Value) -> Option<i64> {
    let text = match written {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let thousandths = thousandths(text.trim())?;
    let whole =
        if resource == "cpu" { thousandths } else { thousandths.div_euclid(1000) + i128::from(thousandths % 1000 > 0) };
    i64::try_from(whole).ok()
}

fn thousandths(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = whole.parse().ok()?;
    if fraction.len() > 3 || !fraction.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let fraction: i128 = format!("{fraction:0<3}").parse().ok()?;
    let number = whole.checked_mul(1000)? + if number.starts_with('-') { -fraction } else { fraction };
    let factor: i128 = match suffix {
        "" => 1,
        "m" => return Some(number.div_euclid(1000)),
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_the_server_reads_them() {
        let gpus = |value| amount("nvidia.com/gpu", &value);
        assert_eq!(gpus(json!(8)), Some(8));
        assert_eq!(gpus(json!("1k")), Some(1000));
        assert_eq!(gpus(json!("1500m")), Some(2), "rounded up");
        assert_eq!(amount("cpu", &json!("1500m")), Some(1500));
        assert_eq!(amount("cpu", &json!(96)), Some(96_000));
        assert_eq!(amount("memory", &json!("2Gi")), Some(2 << 30));
        assert_eq!(amount("memory", &json!("1.5Ki")), Some(1536));
        assert_eq!(gpus(json!("eight")), None);
        assert_eq!(gpus(json!("")), None);
    }
}
