//! Layouts, checked by placement on the GPUs of every pool that uses them.

use std::collections::{BTreeMap, BTreeSet};

use crate::diag::{At, Code, Diagnostic, Span, codes, nearest};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::{Cut, Layout, MigPart};
use crate::fleet::pool::Pool;
use crate::hardware::mig::{self, Geometry};
use crate::hardware::{Gpu, Vendor, catalogue};
use crate::ids::{GpuModel, InstanceType, LayoutName, MigProfile};

pub fn check(p: &mut Problems<'_>) {
    let parts = p.parts;
    for layout in parts.layouts.values() {
        cut_once(p, layout);
        keep_ready_is_cut(p, layout);
    }
    if p.unread.headless {
        return;
    }
    let own = parts.pools.values().map(|pool| (pool, &pool.layout));
    let lent = parts
        .tides
        .values()
        .flat_map(|tide| &tide.loans)
        .filter_map(|loan| Some((parts.pools.get(&loan.pool.value)?, loan.layout.as_ref()?)));
    let mut told = Told::default();
    let uses: Vec<_> = own.chain(lent).collect();
    let used: BTreeSet<&LayoutName> = uses.iter().map(|(_, name)| &name.value).collect();
    for layout in parts.layouts.values().filter(|layout| !used.contains(&layout.name.value)) {
        fits_some_gpu(p, layout);
    }
    for (pool, name) in uses {
        let Some(layout) = parts.layouts.get(&name.value) else { continue };
        if p.is_sound(Kind::NodePool, pool.name.value.as_str()) {
            on_pool(p, layout, pool, name, &mut told);
        }
    }
}

/// Where a layout was looked at. What is wrong with the layout is told once a GPU model or instance type, what is wrong
/// with a pool once a pool.
#[derive(Default)]
struct Told {
    gpus: BTreeSet<(LayoutName, GpuModel)>,
    types: BTreeSet<(LayoutName, InstanceType)>,
}

/// A layout on the GPUs of a pool.
fn on_pool(p: &mut Problems<'_>, layout: &Layout, pool: &Pool, used: &At<LayoutName>, told: &mut Told) {
    let Some(hardware) = p.parts.hardware(&pool.instance_type) else { return };
    let name = layout.name.value.as_str();
    let refuse = |p: &mut Problems<'_>, message: String, these: &str, hint: &str| {
        let said = Diagnostic::error(codes::CANNOT_SHARE, message).at(used.at, "").at(pool.instance_type.at, these);
        p.blame(Kind::NodePool, pool.name.value.as_str(), said.hint(hint));
    };
    let Some(gpu) = hardware.gpu else {
        let message = format!("`{}` has no GPUs to cut", pool.instance_type.value);
        return refuse(p, message, "no GPUs", "use `layout: whole`");
    };
    let is_nvidia = gpu.vendor == Vendor::Nvidia;
    let first_of_gpu = told.gpus.insert((layout.name.value.clone(), gpu.model.clone()));
    let first_of_type = told.types.insert((layout.name.value.clone(), pool.instance_type.value.clone()));
    match (&layout.cut, &gpu.mig) {
        (Cut::Mig(_), None) => {
            let hint = if is_nvidia { "use `layout: whole`, MPS or time-slicing" } else { "use `layout: whole`" };
            refuse(p, format!("the {} cannot be cut by MIG", gpu.name), "these GPUs", hint);
        }
        (Cut::Mig(parts), Some(geometry)) => {
            if first_of_type {
                gpu_indices(p, name, parts, hardware.gpus, pool);
            }
            for part in parts.iter().filter(|_| first_of_gpu) {
                fit(p, name, part, geometry, gpu, (pool, used));
            }
        }
        (Cut::Mps(_), _) if !is_nvidia => {
            refuse(p, format!("the {} has no MPS", gpu.name), "these GPUs", "use `layout: whole`");
        }
        (Cut::TimeSlicing(_), _) if !is_nvidia => {
            refuse(p, format!("the {} has no time-slicing", gpu.name), "these GPUs", "use `layout: whole`");
        }
        (Cut::Mps(mps), _) if mps.clients > gpu.mps_clients && first_of_gpu => {
            let message = format!("the {} serves at most {} MPS clients", gpu.name, gpu.mps_clients);
            let said =
                Diagnostic::error(codes::CANNOT_SHARE, message).at(mps.at, "").at(pool.instance_type.at, "these GPUs");
            let hint = format!("write `clients: {}`, or another layout for this pool", gpu.mps_clients);
            p.blame(Kind::GpuLayout, name, said.hint(hint));
        }
        (Cut::Mps(_) | Cut::TimeSlicing(_), _) => {}
    }
}

/// Every index is a GPU of the node.
fn gpu_indices(p: &mut Problems<'_>, layout: &str, parts: &[MigPart], gpus: u32, pool: &Pool) {
    for index in parts.iter().flat_map(|part| &part.gpus).filter(|index| index.value >= gpus) {
        let there = match gpus {
            1 => "its only GPU is 0".into(),
            _ => format!("its {gpus} GPUs are 0 to {}", gpus.saturating_sub(1)),
        };
        let message = format!("`{}` has no GPU {}: {there}", pool.instance_type.value, index.value);
        let said = Diagnostic::error(codes::GPU_INDEX, message).at(index.at, "").at(pool.instance_type.at, "used here");
        p.blame(Kind::GpuLayout, layout, said.hint("leave `gpus` out to mean all of them"));
    }
}

/// No GPU is cut twice, whatever the node. The first that is stands for all.
fn cut_once(p: &mut Problems<'_>, layout: &Layout) {
    let Cut::Mig(parts) = &layout.cut else { return };
    let mut whole: Option<Span> = None;
    let mut cut: BTreeMap<u32, Span> = BTreeMap::new();
    for part in parts {
        let twice = match part.gpus.as_slice() {
            [] => {
                let first = whole.or(cut.values().next().copied());
                whole = whole.or(Some(part.span()));
                first.map(|first| (part.span(), first))
            }
            some => some.iter().find_map(|index| {
                let first = whole.or(cut.insert(index.value, index.at))?;
                Some((index.at, first))
            }),
        };
        if let Some((at, first)) = twice {
            let message = format!("the layout `{}` cuts a GPU in two ways", layout.name.value);
            let said = Diagnostic::error(codes::GPU_INDEX, message).at(at, "the second").at(first, "the first");
            let hint = "name each GPU in one entry; an entry without `gpus` means all of them";
            p.blame(Kind::GpuLayout, layout.name.value.as_str(), said.hint(hint));
            return;
        }
    }
}

fn fit(
    p: &mut Problems<'_>,
    layout: &str,
    part: &MigPart,
    geometry: &Geometry,
    gpu: &Gpu,
    (pool, used): (&Pool, &At<LayoutName>),
) {
    let mut blame = |code: Code, message: String, at: Span, hint: String| {
        let said = Diagnostic::error(code, message).at(at, "");
        let said = said.at(pool.instance_type.at, "these GPUs").at(used.at, "cut like this");
        p.blame(Kind::GpuLayout, layout, said.hint(hint));
    };
    let wanted = part.counts();
    let known: Vec<&str> = geometry.profiles.iter().map(|profile| profile.name.as_str()).collect();
    let mut fine = true;
    for (profile, count) in &part.slices {
        match geometry.profile(profile) {
            None => {
                // A slice of another GPU: the one with as many compute slices is what was meant.
                let part = profile.as_str().split_inclusive('.').next().unwrap_or_default();
                let alike = known.iter().copied().find(|known| known.starts_with(part));
                let hint = match alike.or_else(|| nearest(profile.as_str(), known.iter().copied())) {
                    Some(near) => format!("did you mean `{near}`? It has {}", known.join(", ")),
                    None => format!("it has {}", known.join(", ")),
                };
                let message = format!("the {} has no slice `{profile}`", gpu.name);
                blame(codes::UNKNOWN_SLICE, message, count.at, hint);
            }
            Some(known) if count.value > known.max => {
                let message =
                    format!("{} × {profile} on one {}, which holds {} at most", count.value, gpu.name, known.max);
                blame(codes::SLICES_DO_NOT_FIT, message, count.at, instead(geometry, &wanted));
            }
            Some(_) => continue,
        }
        fine = false;
    }
    if fine && mig::place(geometry, &wanted).is_err() {
        let message = format!("{} do not fit on one {}", text(&wanted), gpu.name);
        blame(codes::SLICES_DO_NOT_FIT, message, part.span(), instead(geometry, &wanted));
    }
}

/// What fits of what was wanted, and what could stand beside it.
fn instead(geometry: &Geometry, wanted: &BTreeMap<MigProfile, u32>) -> String {
    let fits = mig::largest_fitting(geometry, wanted);
    let beside: Vec<&str> = mig::beside(geometry, &fits).into_iter().map(|profile| profile.as_str()).collect();
    match beside.split_last() {
        None => format!("{} would fill it: slices have fixed places in the GPU's memory", text(&fits)),
        Some((last, [])) => format!("{} would fit, and beside it {last}", text(&fits)),
        Some((last, more)) => format!("{} would fit, and beside it {} or {last}", text(&fits), more.join(", ")),
    }
}

/// A layout that no pool uses yet can still be wrong on every GPU there is.
fn fits_some_gpu(p: &mut Problems<'_>, layout: &Layout) {
    let Cut::Mig(parts) = &layout.cut else { return };
    let geometries = || catalogue().gpus.values().filter_map(|gpu| gpu.mig.as_ref());
    for part in parts {
        let wanted = part.counts();
        if geometries().any(|geometry| mig::place(geometry, &wanted).is_ok()) {
            continue;
        }
        let nowhere =
            part.slices.iter().find(|(name, _)| !geometries().any(|geometry| geometry.profile(name).is_some()));
        let said = match nowhere {
            Some((profile, count)) => {
                let known = geometries().flat_map(|geometry| &geometry.profiles).map(|profile| profile.name.as_str());
                let near =
                    nearest(profile.as_str(), known).map_or(String::new(), |near| format!("did you mean `{near}`? "));
                Diagnostic::error(codes::UNKNOWN_SLICE, format!("no GPU has a slice `{profile}`"))
                    .at(count.at, "")
                    .hint(format!("{near}`tidewright hardware h100-sxm` shows what a GPU can be cut into"))
            }
            None => Diagnostic::error(codes::SLICES_DO_NOT_FIT, format!("{} fit on no GPU together", text(&wanted)))
                .at(part.span(), "")
                .hint("`tidewright hardware h100-sxm` shows what a GPU can be cut into"),
        };
        p.blame(Kind::GpuLayout, layout.name.value.as_str(), said);
    }
}

fn text(counts: &BTreeMap<MigProfile, u32>) -> String {
    counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(profile, n)| format!("{n} × {profile}"))
        .collect::<Vec<_>>()
        .join(" + ")
}

/// What is kept ready is something that the layout cuts.
fn keep_ready_is_cut(p: &mut Problems<'_>, layout: &Layout) {
    let Cut::Mig(parts) = &layout.cut else {
        if let Some((profile, _)) = layout.keep_ready.iter().next() {
            let message = "only MIG slices can be kept ready, and this layout has none";
            p.say(Diagnostic::error(codes::KEEP_READY, message).at(profile.at, "").hint("remove `keepReady`"));
        }
        return;
    };
    for profile in layout.keep_ready.keys() {
        if !parts.iter().any(|part| part.slices.contains_key(&profile.value)) {
            let message = format!("the layout cuts no `{}` that could be kept ready", profile.value);
            let said = Diagnostic::error(codes::KEEP_READY, message).at(profile.at, "");
            p.blame(Kind::GpuLayout, layout.name.value.as_str(), said.hint("name a profile that is in `mig`"));
        }
    }
}
