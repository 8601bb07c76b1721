//! Kubernetes quantities as whole numbers: CPU in thousandths, as Kueue counts it, everything else in ones. Fractions
//! are rounded up, as the API machinery does.

/// The amount of a resource that is written like `8`, `100m`, `1.5Gi` or `2e3`. None for what is no quantity.
pub fn amount(resource: &str, text: &str) -> Option<i64> {
    let thousandths = thousandths(text.trim())?;
    let amount = if resource == "cpu" { thousandths } else { up(thousandths, 1000)? };
    i64::try_from(amount).ok()
}

fn up(amount: i128, by: i128) -> Option<i128> {
    let whole = amount.checked_div_euclid(by)?;
    Some(whole + i128::from(amount.rem_euclid(by) > 0))
}

fn thousandths(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || fraction.len() > 12 || !fraction.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    // All digits as one number, and how many of them stand behind the point.
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let (factor, below) = unit(suffix)?;
    let amount = digits.checked_mul(factor)?.checked_mul(1000)?;
    up(amount, 10_i128.checked_pow(places + below)?)
}

/// What a suffix multiplies with, and by which power of ten it then divides.
fn unit(suffix: &str) -> Option<(i128, u32)> {
    Some(match suffix {
        "n" => (1, 9),
        "u" => (1, 6),
        "m" => (1, 3),
        "" => (1, 0),
        "k" => (1_000, 0),
        "M" => (1_000_000, 0),
        "G" => (1_000_000_000, 0),
        "T" => (1_000_000_000_000, 0),
        "P" => (1_000_000_000_000_000, 0),
        "E" => (1_000_000_000_000_000_000, 0),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(power) {
                Ok(power) => (10_i128.checked_pow(power)?, 0),
                Err(_) => (1, power.unsigned_abs()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn quantities_are_read_as_the_server_reads_them() {
        for (text, gpus) in [("8", 8), ("1k", 1000), ("1500m", 2), ("2e3", 2000), ("1E1", 10), ("100n", 1), ("-1", -1)]
        {
            assert_eq!(amount("nvidia.com/gpu", text), Some(gpus), "{text}");
        }
        for (text, cpu) in [("1500m", 1500), ("96", 96_000), ("0.1", 100), ("250u", 1), ("1e-3", 1)] {
            assert_eq!(amount("cpu", text), Some(cpu), "{text}");
        }
        for (text, bytes) in
            [("2Gi", 2 << 30), ("1.5Ki", 1536), ("2113411956Ki", 2_113_411_956 << 10), ("1Ei", 1 << 60)]
        {
            assert_eq!(amount("memory", text), Some(bytes), "{text}");
        }
        for text in ["eight", "", "1e", "1.5.5", "8Ei", "Gi"] {
            assert_eq!(amount("memory", text), None, "{text}");
        }
    }
}
