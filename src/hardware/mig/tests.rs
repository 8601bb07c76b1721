//! Known answers, and a second opinion that is found in another way.

use std::collections::BTreeSet;

use super::*;
use crate::hardware::catalogue;

type Wish = BTreeMap<MigProfile, u32>;

fn gpu(model: &str) -> Geometry {
    catalogue().gpus[model].mig.clone().expect("a GPU with MIG")
}

/// The same GPU with fewer profiles.
fn only(model: &str, keep: impl Fn(&str) -> bool) -> Geometry {
    let mut geometry = gpu(model);
    geometry.profiles.retain(|profile| keep(profile.name.as_str()));
    geometry
}

/// `2 3g.20gb, 1g.5gb` as a wish.
fn wish(text: &str) -> Wish {
    let part = |part: &str| match part.trim().split_once(' ') {
        Some((count, name)) => (name.into(), count.parse().expect("a count")),
        None => (part.trim().into(), 1),
    };
    text.split(',').map(part).collect()
}

fn written(wish: &Wish) -> String {
    let part =
        |(name, count): (&MigProfile, &u32)| if *count == 1 { name.to_string() } else { format!("{count} {name}") };
    wish.iter().rev().map(part).collect::<Vec<_>>().join(", ")
}

/// Every wish of up to `limit(profile)` of each profile that asks for at most twice the memory there is: beyond that
/// the number of wishes explodes and the answer is always no.
fn wishes(geometry: &Geometry, limit: fn(&Profile) -> u32) -> Vec<Wish> {
    let mut all = vec![(0, Wish::new())];
    for profile in &geometry.profiles {
        for (memory, wish) in all.clone() {
            for count in 1..=limit(profile) {
                let memory = memory + count * profile.memory;
                if memory <= 2 * geometry.memory {
                    let mut more = wish.clone();
                    more.insert(profile.name.clone(), count);
                    all.push((memory, more));
                }
            }
        }
    }
    all.into_iter().map(|(_, wish)| wish).collect()
}

/// How many cuts there are, nothing at all aside, and those to which nothing can be added.
fn cuts(geometry: &Geometry) -> (usize, Vec<String>) {
    let fitting = wishes(geometry, |profile| profile.max).into_iter();
    let fitting: Vec<_> = fitting.filter(|wish| !wish.is_empty() && place(geometry, wish).is_ok()).collect();
    let full = fitting.iter().filter(|wish| beside(geometry, wish).is_empty());
    (fitting.len(), full.map(written).collect())
}

fn counted(geometry: &Geometry) -> (usize, usize) {
    let (valid, full) = cuts(geometry);
    (valid, full.len())
}

#[test]
fn a_gpu_of_seven_slices_has_37_plain_cuts_and_12_full_ones() {
    let (valid, full) = cuts(&only("a100-40gb", |name| !name.contains("+me") && name != "1g.10gb"));
    let expected = [
        "7g.40gb",
        "4g.20gb, 3g.20gb",
        "2 3g.20gb",
        "3g.20gb, 2 2g.10gb",
        "4g.20gb, 2g.10gb, 1g.5gb",
        "3 2g.10gb, 1g.5gb",
        "3g.20gb, 2g.10gb, 2 1g.5gb",
        "4g.20gb, 3 1g.5gb",
        "2 2g.10gb, 3 1g.5gb",
        "3g.20gb, 4 1g.5gb",
        "2g.10gb, 5 1g.5gb",
        "7 1g.5gb",
    ];
    assert_eq!(valid, 37);
    assert_eq!(full.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected.into_iter().collect());
    assert_eq!(full.len(), 12);
}

#[test]
fn every_gpu_of_seven_slices_has_the_same_number_of_cuts() {
    let seven = catalogue().gpus.values().filter(|gpu| gpu.mig.as_ref().is_some_and(|mig| mig.compute == 7));
    let mut seen = 0;
    for gpu in seven {
        assert_eq!(counted(&only(gpu.model.as_str(), |name| !name.contains("+me"))), (77, 28), "{}", gpu.model);
        assert_eq!(counted(&only(gpu.model.as_str(), |_| true)), (127, 44), "{}", gpu.model);
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn an_a30_has_its_own_number_of_cuts() {
    assert_eq!(counted(&only("a30", |name| !name.contains("+me"))), (9, 4));
    assert_eq!(counted(&gpu("a30")), (21, 9));
}

#[test]
fn two_instances_never_share_the_media_engines() {
    let fits = |model: &str, text: &str| place(&gpu(model), &wish(text)).is_ok();
    let rtx = "rtx-pro-6000-blackwell";
    assert!(fits(rtx, "4 1g.24gb") && fits(rtx, "1g.24gb+me, 3 1g.24gb+gfx") && fits(rtx, "2 2g.48gb"));
    assert!(fits(rtx, "1g.24gb+me.all, 3 1g.24gb-me") && fits(rtx, "2g.48gb+me.all, 2g.48gb-me"));
    assert!(!fits(rtx, "1g.24gb+me.all, 1g.24gb") && !fits(rtx, "1g.24gb+me.all, 1g.24gb+me"));
    assert!(!fits(rtx, "2g.48gb+me.all, 2g.48gb"));
}

/// Every arrangement on the slices themselves, from left to right: leave the slice empty, or begin something there.
fn arrangements(geometry: &Geometry, slice: u32, so_far: &mut Vec<usize>, found: &mut BTreeSet<Vec<u32>>) {
    let profile = |index: &usize| &geometry.profiles[*index];
    let counts = |of: &[usize]| {
        (0..geometry.profiles.len()).map(|i| of.iter().filter(|j| **j == i).count() as u32).collect::<Vec<_>>()
    };
    let media: u32 = so_far.iter().map(|i| profile(i).media).sum();
    let compute: u32 = so_far.iter().map(|i| profile(i).compute).sum();
    let now = counts(so_far);
    let over = now.iter().zip(&geometry.profiles).any(|(count, profile)| *count > profile.max);
    if over || media > geometry.media || compute > geometry.compute {
        return;
    }
    if slice >= geometry.memory {
        found.insert(now);
        return;
    }
    arrangements(geometry, slice + 1, so_far, found);
    for index in 0..geometry.profiles.len() {
        let Profile { starts, memory, .. } = profile(&index);
        if starts.contains(&slice) && slice + memory <= geometry.memory {
            so_far.push(index);
            arrangements(geometry, slice + memory, so_far, found);
            so_far.pop();
        }
    }
}

#[test]
fn place_agrees_with_every_arrangement_of_the_slices() {
    let mut seen: Vec<&Geometry> = Vec::new();
    for geometry in catalogue().gpus.values().filter_map(|gpu| gpu.mig.as_ref()) {
        if seen.contains(&geometry) {
            continue;
        }
        seen.push(geometry);
        let mut found = BTreeSet::new();
        arrangements(geometry, 0, &mut Vec::new(), &mut found);
        let mut fitting = 0;
        for wish in wishes(geometry, |profile| profile.max + 1) {
            let count = |profile: &Profile| wish.get(&profile.name).copied().unwrap_or(0);
            let expected = found.contains(&geometry.profiles.iter().map(count).collect::<Vec<_>>());
            let placed = place(geometry, &wish);
            assert_eq!(placed.is_ok(), expected, "{wish:?} on {geometry:?}");
            if let Ok(placed) = placed {
                check(geometry, &wish, &placed);
                fitting += 1;
            }
        }
        assert_eq!(fitting, found.len(), "an arrangement was never wished for");
    }
    assert_eq!(seen.len(), 12);
}

/// What is placed is what was wished for, at allowed starts, and no two instances overlap.
fn check(geometry: &Geometry, wish: &Wish, placed: &[Placement]) {
    let mut counts = Wish::new();
    let mut free = 0;
    for Placement { start, profile: name } in placed {
        *counts.entry(name.clone()).or_default() += 1;
        let profile = geometry.profile(name).expect("a profile of this GPU");
        assert!(profile.starts.contains(start) && *start >= free, "{placed:?}");
        free = start + profile.memory;
    }
    assert!(free <= geometry.memory, "{placed:?}");
    assert_eq!(counts, *wish);
}

#[test]
fn a_misfit_says_what_is_wrong() {
    let geometry = gpu("h100-sxm");
    let misfit = |text: &str| place(&geometry, &wish(text)).expect_err("a misfit");
    assert_eq!(misfit("1g.5gb"), Misfit::UnknownProfile("1g.5gb".into()));
    assert_eq!(misfit("0 1g.5gb"), Misfit::UnknownProfile("1g.5gb".into()));
    assert_eq!(misfit("2 4g.40gb"), Misfit::TooMany { profile: "4g.40gb".into(), wanted: 2, max: 1 });
    let hostile = Misfit::TooMany { profile: "1g.10gb".into(), wanted: u32::MAX, max: 7 };
    assert_eq!(misfit("4294967295 1g.10gb"), hostile);
    assert_eq!(misfit("2 3g.40gb, 1g.10gb"), Misfit::DoesNotFit);
    assert_eq!(misfit("7 1g.10gb, 1g.20gb"), Misfit::DoesNotFit);
    assert_eq!(place(&geometry, &Wish::new()), Ok(Vec::new()));
    assert_eq!(place(&geometry, &wish("0 1g.10gb")), Ok(Vec::new()));
}

#[test]
fn beside_names_what_could_still_be_added() {
    let geometry = gpu("h100-sxm");
    let names = |text: &str| beside(&geometry, &wish(text)).into_iter().map(MigProfile::as_str).collect::<Vec<_>>();
    assert_eq!(names("4g.40gb, 2g.20gb"), ["1g.10gb", "1g.10gb+me", "1g.20gb"]);
    assert_eq!(names("2 3g.40gb"), [""; 0]);
    assert_eq!(names("4294967295 1g.10gb"), [""; 0]);
}

#[test]
fn what_would_fit_instead_is_the_most_of_what_was_wanted() {
    let check = |model: &str, wanted: &str, expected: &str| {
        let best = largest_fitting(&gpu(model), &wish(wanted));
        assert_eq!(written(&best), expected, "{wanted}");
        assert!(place(&gpu(model), &best).is_ok());
    };
    check("h100-sxm", "2 4g.40gb", "4g.40gb");
    check("h100-sxm", "2 3g.40gb, 1g.10gb", "2 3g.40gb");
    check("h100-sxm", "4g.40gb, 3g.40gb, 1g.10gb", "4g.40gb, 3g.40gb");
    check("h100-sxm", "3g.40gb, 2g.20gb, 4 1g.10gb", "3g.40gb, 4 1g.10gb");
    check("h100-sxm", "4294967295 1g.10gb, 9 nonsense", "7 1g.10gb");
    check("h100-sxm", "nonsense", "");
    check("a30", "2g.12gb+me, 4g.24gb", "4g.24gb");
    check("rtx-pro-6000-blackwell", "9 1g.24gb, 9 1g.24gb-me, 9 1g.24gb+me.all, 9 2g.48gb+gfx", "4 1g.24gb");
}
