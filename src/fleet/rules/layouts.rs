//! Layouts, checked by placement on the GPUs of every pool that uses them.

use std::collections::{BTreeMap, BTreeSet};

use crate::diag::{At, Diagnostic, Span, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::layout::{Cut, Layout, MigPart};
use crate::fleet::pool::Pool;
use crate::hardware::mig::{self, Geometry, Misfit};
use crate::hardware::{Gpu, Vendor};
use crate::ids::{GpuModel, InstanceType, LayoutName, MigProfile};

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    let mut done: BTreeSet<(LayoutName, InstanceType)> = BTreeSet::new();
    let parts = p.parts;
    let own = parts.pools.values().map(|pool| (pool, &pool.layout));
    let lent = parts
        .tides
        .values()
        .flat_map(|tide| &tide.loans)
        .filter_map(|loan| Some((parts.pools.get(&loan.pool.value)?, loan.layout.as_ref()?)));
    let mut fitted: BTreeSet<(LayoutName, GpuModel)> = BTreeSet::new();
    for (pool, name) in own.chain(lent).collect::<Vec<_>>() {
        let Some(layout) = parts.layouts.get(&name.value) else { continue };
        if p.is_sound(Kind::NodePool, pool.name.value.as_str())
            && done.insert((name.value.clone(), pool.instance_type.value.clone()))
        {
            on_pool(p, layout, pool, name, &mut fitted);
        }
    }
    for layout in parts.layouts.values() {
        keep_ready_is_cut(p, layout);
    }
}

fn on_pool(
    p: &mut Problems<'_>,
    layout: &Layout,
    pool: &Pool,
    used: &At<LayoutName>,
    fitted: &mut BTreeSet<(LayoutName, GpuModel)>,
) {
    let Some(hardware) = p.parts.hardware(&pool.instance_type) else { return };
    let name = layout.name.value.as_str();
    let Some(gpu) = hardware.gpu else {
        let message = format!("`{}` has no GPUs to cut", pool.instance_type.value);
        let said = Diagnostic::error(codes::CANNOT_SHARE, message).at(used.at, "").at(pool.instance_type.at, "no GPUs");
        p.blame(Kind::NodePool, pool.name.value.as_str(), said.hint("use `layout: whole`"));
        return;
    };
    let first_on_this_gpu = fitted.insert((layout.name.value.clone(), gpu.model.clone()));
    match &layout.cut {
        Cut::Mig(parts) => {
            gpu_indices(p, layout, parts, hardware.gpus, pool);
            match &gpu.mig {
                None => {
                    let message = format!("a {} cannot be cut by MIG", gpu.name);
                    let said = Diagnostic::error(codes::CANNOT_SHARE, message)
                        .at(used.at, "")
                        .at(pool.instance_type.at, "these GPUs");
                    p.blame(
                        Kind::NodePool,
                        pool.name.value.as_str(),
                        said.hint("use `layout: whole`, MPS or time-slicing"),
                    );
                }
                Some(geometry) if first_on_this_gpu => {
                    for part in parts {
                        fit(p, name, part, geometry, gpu, pool.instance_type.at);
                    }
                }
                Some(_) => {}
            }
        }
        Cut::Mps(mps) if mps.clients > gpu.mps_clients => {
            let message = if gpu.vendor == Vendor::Nvidia {
                format!("a {} serves at most {} MPS clients", gpu.name, gpu.mps_clients)
            } else {
                format!("a {} has no MPS", gpu.name)
            };
            let said =
                Diagnostic::error(codes::CANNOT_SHARE, message).at(mps.at, "").at(pool.instance_type.at, "these GPUs");
            p.blame(Kind::GpuLayout, name, said.hint("lower `clients`, or use `layout: whole` for this pool"));
        }
        Cut::TimeSlicing(slicing) if gpu.vendor != Vendor::Nvidia => {
            let message = format!("a {} has no time-slicing", gpu.name);
            let said = Diagnostic::error(codes::CANNOT_SHARE, message)
                .at(slicing.at, "")
                .at(pool.instance_type.at, "these GPUs");
            p.blame(Kind::GpuLayout, name, said.hint("use `layout: whole` for this pool"));
        }
        Cut::Mps(_) | Cut::TimeSlicing(_) => {}
    }
}

/// Every index is a GPU of the node, and no GPU is cut twice.
fn gpu_indices(p: &mut Problems<'_>, layout: &Layout, parts: &[MigPart], gpus: u32, pool: &Pool) {
    let mut cut: BTreeMap<u32, Span> = BTreeMap::new();
    for part in parts {
        let all: Vec<(u32, Span)> = if part.gpus.is_empty() {
            (0..gpus).map(|index| (index, part.span())).collect()
        } else {
            part.gpus.iter().map(|index| (index.value, index.at)).collect()
        };
        for (index, at) in all {
            let name = layout.name.value.as_str();
            if index >= gpus {
                let message =
                    format!("`{}` has {gpus} GPUs, 0 to {}", pool.instance_type.value, gpus.saturating_sub(1));
                let said = Diagnostic::error(codes::GPU_INDEX, message)
                    .at(at, "there is none")
                    .at(pool.instance_type.at, "used here");
                p.blame(Kind::GpuLayout, name, said.hint("leave `gpus` out to mean all of them"));
            } else if let Some(first) = cut.insert(index, at) {
                let message = format!("GPU {index} is cut in two ways");
                let said = Diagnostic::error(codes::GPU_INDEX, message).at(at, "the second").at(first, "the first");
                p.blame(Kind::GpuLayout, name, said.hint("name each GPU in one entry"));
                return;
            }
        }
    }
}

fn fit(p: &mut Problems<'_>, layout: &str, part: &MigPart, geometry: &Geometry, gpu: &Gpu, used: Span) {
    let wanted = part.counts();
    let blamed = |profile: &MigProfile| part.slices.get(profile).map_or(part.span(), |count| count.at);
    let said = match mig::place(geometry, &wanted) {
        Ok(_) => return,
        Err(Misfit::UnknownProfile(profile)) => {
            let known: Vec<&str> = geometry.profiles.iter().map(|profile| profile.name.as_str()).collect();
            let hint = match crate::diag::nearest(profile.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? It has {}", known.join(", ")),
                None => format!("it has {}", known.join(", ")),
            };
            Diagnostic::error(codes::UNKNOWN_SLICE, format!("a {} has no slice `{profile}`", gpu.name))
                .at(blamed(&profile), "")
                .hint(hint)
        }
        Err(Misfit::TooMany { profile, wanted, max }) => {
            let message = format!("{wanted} × {profile} on a {}, which holds {max} of them alone", gpu.name);
            Diagnostic::error(codes::SLICES_DO_NOT_FIT, message)
                .at(blamed(&profile), "")
                .hint(instead(geometry, &part.counts()))
        }
        Err(Misfit::DoesNotFit) => {
            let message = format!("{} do not fit on a {} together", text(&wanted), gpu.name);
            let at = part.slices.values().next().map_or(part.span(), |count| count.at);
            Diagnostic::error(codes::SLICES_DO_NOT_FIT, message).at(at, "").hint(instead(geometry, &wanted))
        }
    };
    p.blame(Kind::GpuLayout, layout, said.at(used, "used on these GPUs"));
}

/// What fits of what was wanted, and what could stand beside it.
fn instead(geometry: &Geometry, wanted: &BTreeMap<MigProfile, u32>) -> String {
    let fits = mig::largest_fitting(geometry, wanted);
    let beside = mig::beside(geometry, &fits);
    let beside = match beside.as_slice() {
        [] => "nothing fits beside it".to_string(),
        some => {
            format!("beside it there is room for {}", some.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(" or "))
        }
    };
    format!("{} fits: instances stand at fixed places on the GPU's memory; {beside}", text(&fits))
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
        if let Some((_, count)) = layout.keep_ready.iter().next() {
            let message = "only MIG slices can be kept ready";
            p.say(Diagnostic::error(codes::KEEP_READY, message).at(count.at, "").hint("remove `keepReady`"));
        }
        return;
    };
    for (profile, count) in &layout.keep_ready {
        if !parts.iter().any(|part| part.slices.contains_key(profile)) {
            let message = format!("the layout cuts no `{profile}` that could be kept ready");
            let said = Diagnostic::error(codes::KEEP_READY, message).at(count.at, "");
            p.blame(Kind::GpuLayout, layout.name.value.as_str(), said.hint("name a profile that is in `mig`"));
        }
    }
}
