//! Quantities as Kubernetes writes them back: two texts for one amount would look like a change.

/// A whole number: `56`, `1k`, `1500`.
pub fn count(amount: u64) -> String {
    scaled(amount, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// A number of GiB: `768Gi`, `2Ti`.
pub fn gib(amount: u64) -> String {
    if amount == 0 { "0".into() } else { scaled(amount, 1024, &["Gi", "Ti", "Pi", "Ei"]) }
}

/// The largest unit that leaves a whole number.
fn scaled(mut amount: u64, step: u64, units: &[&str]) -> String {
    let mut unit = 0;
    while amount > 0 && amount.is_multiple_of(step) && unit + 1 < units.len() {
        amount /= step;
        unit += 1;
    }
    format!("{amount}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_as_the_api_server_writes_it() {
        for (amount, text) in [(0, "0"), (56, "56"), (1000, "1k"), (1500, "1500"), (3072, "3072"), (2_000_000, "2M")] {
            assert_eq!(count(amount), text);
        }
        for (amount, text) in [(0, "0"), (768, "768Gi"), (1024, "1Ti"), (1536, "1536Gi"), (1 << 20, "1Pi")] {
            assert_eq!(gib(amount), text);
        }
    }
}
