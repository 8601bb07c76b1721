//! What amounts are worth in GPUs, whatever they are counted in: the one currency in which a `total` is kept.
//!
//! It is counted in thousandths of a GPU, of whatever model: a `total` of GPUs says nothing about models either. A slice
//! is worth the part of its GPU's memory slices that it takes, because those are what nobody else can have meanwhile;
//! compute slices do not add up (a GPU that two `3g` fill has one left over). Every MIG geometry has four or eight memory
//! slices, so slices are exact. A place of a shared GPU is rounded up.

use crate::fleet::quota::{Amount, Supply};
use crate::hardware::Gpu;
use crate::ids::MigProfile;

/// A whole GPU.
pub const WHOLE: u64 = 1000;

/// One slice; none where this GPU has no such profile.
pub fn of_slice(gpu: Option<&Gpu>, profile: &MigProfile) -> Option<u64> {
    let geometry = gpu?.mig.as_ref()?;
    let memory = u64::from(geometry.profile(profile)?.memory);
    Some((WHOLE * memory).div_ceil(u64::from(geometry.memory).max(1)))
}

/// One of so many places of a shared GPU.
pub fn of_place(places: u64) -> u64 {
    WHOLE.div_ceil(places.max(1))
}

/// Whole GPUs and slices together; none where a slice is not of this GPU.
pub fn of_supply(gpu: Option<&Gpu>, supply: &Supply) -> Option<u64> {
    let slices = supply.slices.iter().filter(|(_, count)| **count > 0);
    let slices = slices.map(|(profile, count)| Some(of_slice(gpu, profile)? * u64::from(*count)));
    Some(u64::from(supply.gpus) * WHOLE + slices.sum::<Option<u64>>()?)
}

/// The most that a quota may use of several pools, each by the GPUs of its nodes: how many, and which. None where it
/// cannot be said: nodes of two sizes, or without GPUs, are no measure of GPUs.
pub fn of_total(total: &Amount, pools: &[(u32, Option<&Gpu>)]) -> Option<u64> {
    match total {
        Amount::Gpus(gpus) => Some(u64::from(*gpus) * WHOLE),
        Amount::Nodes(nodes) => {
            let (each, _) = pools.first().filter(|(gpus, _)| *gpus > 0)?;
            let equal = pools.iter().all(|(gpus, _)| gpus == each);
            equal.then(|| u64::from(*nodes) * u64::from(*each) * WHOLE)
        }
        Amount::Slices(slices) => {
            // Where two GPUs of the fleet have a profile of one name, it may take more of the one than of the other.
            let each = |profile| pools.iter().filter_map(|(_, gpu)| of_slice(*gpu, profile)).max();
            slices.iter().map(|(profile, count)| Some(each(profile)? * u64::from(*count))).sum()
        }
    }
}

/// `12.5 GPUs`
pub fn text(worth: u64) -> String {
    let (whole, rest) = (worth / WHOLE, worth % WHOLE);
    let part = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    let number = format!("{whole}{}", part.trim_end_matches('0'));
    if number == "1" { "1 GPU".into() } else { format!("{number} GPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::catalogue;

    #[test]
    fn the_slices_of_every_geometry_are_exact_and_never_worth_more_than_the_gpu() {
        let mut seen = 0;
        for gpu in catalogue().gpus.values() {
            for profile in gpu.mig.iter().flat_map(|geometry| &geometry.profiles) {
                let geometry = gpu.mig.as_ref().unwrap();
                let worth = of_slice(Some(gpu), &profile.name).unwrap();
                assert_eq!(worth * u64::from(geometry.memory), WHOLE * u64::from(profile.memory), "{}", profile.name);
                assert!(worth <= WHOLE);
                seen += 1;
            }
        }
        assert!(seen > 20);
    }

    #[test]
    fn gpus_and_slices_are_compared_by_what_they_take_of_a_gpu() {
        let h100 = catalogue().gpus.get("h100-sxm");
        assert!(h100.is_some(), "{:?}", catalogue().gpus.keys().collect::<Vec<_>>());
        let of = |profile: &str| of_slice(h100, &profile.into());
        assert_eq!([of("1g.10gb"), of("1g.20gb"), of("3g.40gb"), of("7g.80gb")], [125, 250, 500, 1000].map(Some));
        assert_eq!(of("1g.5gb"), None);
        let supply = Supply { nodes: 0, gpus: 2, slices: [("3g.40gb".into(), 3)].into() };
        assert_eq!(of_supply(h100, &supply), Some(3500));
        let pools = [(8, h100), (8, h100)];
        assert_eq!(of_total(&Amount::Nodes(2), &pools), Some(16_000));
        assert_eq!(of_total(&Amount::Nodes(2), &[(8, h100), (4, h100)]), None);
        assert_eq!(of_total(&Amount::Nodes(2), &[(0, None)]), None);
        assert_eq!(of_total(&Amount::Slices([("1g.10gb".into(), 14)].into()), &pools), Some(1750));
        assert_eq!((of_place(10), of_place(16)), (100, 63));
        assert_eq!([1000, 1500, 12_125, 0].map(text), ["1 GPU", "1.5 GPUs", "12.125 GPUs", "0 GPUs"]);
    }
}
