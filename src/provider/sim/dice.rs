//! Chance that can be repeated: numbers that depend on a seed and on words alone.
//!
//! The world rolls by the name of the thing it decides about, not from a stream: one call more or less somewhere does
//! not change how long another instance takes to start, so a run with faults can be compared with one without. Faults
//! draw from a [`Stream`] of their own.

use serde::{Deserialize, Serialize};

/// A seed that answers questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dice(pub u64);

/// Numbers one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stream(u64);

impl Dice {
    /// A number that belongs to these words.
    pub fn number(self, words: &[&str]) -> u64 {
        let mut hash = self.0 ^ 0xcbf2_9ce4_8422_2325;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0xff])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        mixed(hash)
    }

    /// At least `from` and below `to`.
    pub fn between(self, from: u64, to: u64, words: &[&str]) -> u64 {
        from + self.number(words) % (to - from).max(1)
    }

    /// Seventeen hexadecimal digits, as EC2's ids have.
    pub fn id(self, prefix: &str, words: &[&str]) -> String {
        let (high, low) = (self.number(words), mixed(self.number(words) ^ 1));
        format!("{prefix}-0{high:016x}{low:016x}")[..prefix.len() + 18].to_string()
    }
}

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True this often in a thousand.
    pub fn strikes(&mut self, per_mille: u32) -> bool {
        // No number is drawn for what cannot happen, so a kind of fault that nobody switched on costs nothing.
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }
}

/// The last step of SplitMix64: every bit of the answer depends on every bit given.
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_depends_on_seed_and_words_alone() {
        assert_eq!(Dice(7).number(&["a", "b"]), Dice(7).number(&["a", "b"]));
        assert_ne!(Dice(7).number(&["a", "b"]), Dice(8).number(&["a", "b"]));
        assert_ne!(Dice(7).number(&["ab"]), Dice(7).number(&["a", "b"]));
    }

    #[test]
    fn an_id_looks_like_one_of_ec2() {
        let id = Dice(1).id("i", &["1"]);
        assert!(id.starts_with("i-0") && id.len() == 19, "{id}");
    }

    #[test]
    fn a_stream_strikes_about_as_often_as_it_was_told() {
        let mut stream = Stream::new(3);
        let hits = (0..10_000).filter(|_| stream.strikes(100)).count();
        assert!((800..1200).contains(&hits), "{hits}");
    }
}
