//! Which flavors a workload gets, and whether it fits, needs victims or must wait.

use super::WaitReason;
use super::model::Model;
use super::preempt::{Seeker, Victims, victims};
use super::state::{FlavorName, Fungibility, Mode, Reclaim, ResourceGroup, ResourceName, Workload};
use super::topology::{PODS, Placement};
use super::tree::{Amounts, Kind};

/// What the scheduler would do with the head of a queue.
#[derive(Debug)]
pub struct Nomination {
    pub job: usize,
    pub queue: usize,
    pub verdict: Verdict,
    pub amounts: Amounts,
    /// How far up the quota comes from: 0 without borrowing.
    pub reach: usize,
    pub victims: Victims,
    /// Where it would go, on which flavor's nodes. Without victims: where it would go in an empty cluster.
    pub placement: Option<(FlavorName, Placement)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Fit,
    /// Room could be made. With no victims nothing happens; the reason says what is short.
    Preempt(WaitReason),
    NoFit(WaitReason),
}

/// How one resource or flavor could be had, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    NoFit,
    NoVictims,
    Preempt,
    Reclaim,
    Fit,
}

#[derive(Clone, Copy, Debug)]
struct Outlook {
    way: Way,
    reach: usize,
}

const HOPELESS: Outlook = Outlook { way: Way::NoFit, reach: usize::MAX };

/// Tries the flavors of each resource group in order. A search that stopped at a flavor which then leads nowhere
/// goes on behind it; Kueue does so in its next cycle.
pub fn nominate(model: &mut Model<'_>, job: usize, queue: usize) -> Nomination {
    let spec = model.queues[queue].spec;
    let mut starts = vec![0; spec.groups.len()];
    let attempts = spec.groups.iter().map(|group| group.flavors.len()).max().unwrap_or(0);
    let (mut nomination, mut tried) = attempt(model, job, queue, &starts);
    for _ in 1..attempts {
        let good = nomination.verdict == Verdict::Fit || !nomination.victims.is_empty();
        if good || tried.iter().all(Option::is_none) {
            break;
        }
        starts = tried.iter().map(|stop| stop.map_or(0, |stop| stop + 1)).collect();
        (nomination, tried) = attempt(model, job, queue, &starts);
    }
    nomination
}

/// One search, from a flavor on in each group. Also answers where it stopped before the last flavor.
fn attempt(model: &mut Model<'_>, job: usize, queue: usize, starts: &[usize]) -> (Nomination, Vec<Option<usize>>) {
    let spec = model.queues[queue].spec;
    let workload = model.jobs[job].spec;
    let mut out = Nomination {
        job,
        queue,
        verdict: Verdict::Fit,
        amounts: Vec::new(),
        reach: 0,
        victims: Vec::new(),
        placement: None,
    };
    let mut tried = vec![None; spec.groups.len()];
    let mut short = Vec::new();
    let covered = |resource: &ResourceName| spec.groups.iter().any(|group| covers(group, resource));
    if !workload.requests.iter().all(|(resource, &amount)| amount == 0 || covered(resource)) {
        out.verdict = Verdict::NoFit(WaitReason::NoFlavor);
        return (out, tried);
    }
    for (at, group) in spec.groups.iter().enumerate() {
        let requests: Vec<_> = asked(workload, group).collect();
        if requests.is_empty() {
            continue;
        }
        let choice = choose(model, job, queue, group, &requests, starts[at]);
        tried[at] = choice.stopped.filter(|stop| stop + 1 < group.flavors.len());
        if choice.parts.is_empty() {
            out.verdict = Verdict::NoFit(choice.why);
            return (out, tried);
        }
        for (kind, amount, outlook) in choice.parts {
            out.amounts.push((kind, amount));
            out.reach = out.reach.max(outlook.reach);
            if outlook.way != Way::Fit {
                short.push(kind);
                out.verdict = Verdict::Preempt(WaitReason::QuotaInUse);
            }
        }
    }
    find_place_and_victims(model, &mut out, short);
    (out, tried)
}

fn find_place_and_victims(model: &mut Model<'_>, out: &mut Nomination, mut short: Vec<Kind>) {
    let workload = model.jobs[out.job].spec;
    let placed = workload.topology.is_some() || model.queues[out.queue].is_topology_only;
    let mut flavors = out.amounts.iter().map(|&(kind, _)| &model.tree.kinds[kind].0);
    let flavor = flavors.find(|flavor| placed && model.nodes.has(flavor)).cloned();
    if let Some(flavor) = flavor.as_ref().filter(|_| out.verdict == Verdict::Fit) {
        match model.nodes.place(flavor, workload, false) {
            Some(placement) => out.placement = Some((flavor.clone(), placement)),
            None => {
                out.verdict = Verdict::Preempt(WaitReason::NoPlacement);
                short = out.amounts.iter().map(|&(kind, _)| kind).collect();
            }
        }
    }
    if out.verdict == Verdict::Fit {
        return;
    }
    if let Some(flavor) = &flavor {
        let Some(placement) = model.nodes.place(flavor, workload, true) else {
            out.verdict = Verdict::NoFit(WaitReason::NoPlacement);
            return;
        };
        out.placement = Some((flavor.clone(), placement));
    }
    let (job, queue, place_on) = (out.job, out.queue, flavor.as_ref());
    out.victims = victims(model, &Seeker { job, queue, requests: &out.amounts, short: &short, place_on });
    if let Some(flavor) = flavor.filter(|_| !out.victims.is_empty()) {
        out.victims.iter().for_each(|&(job, _)| model.take_away(job));
        out.placement = model.nodes.place(&flavor, workload, false).map(|placement| (flavor, placement));
        out.victims.iter().for_each(|&(job, _)| model.put_back(job));
    }
}

struct Choice {
    /// One for each resource; none if no flavor will do.
    parts: Vec<(Kind, i64, Outlook)>,
    stopped: Option<usize>,
    why: WaitReason,
}

/// The best flavor of a group, or the first that is good enough to stop at.
fn choose(
    model: &mut Model<'_>,
    job: usize,
    queue: usize,
    group: &ResourceGroup,
    requests: &[(&ResourceName, i64)],
    start: usize,
) -> Choice {
    let fungibility = model.queues[queue].spec.fungibility;
    let mut best = (HOPELESS, Vec::new());
    let mut choice = Choice { parts: Vec::new(), stopped: None, why: WaitReason::NoFlavor };
    for (at, option) in group.flavors.iter().enumerate().skip(start) {
        choice.stopped = Some(at);
        if !suits(model, job, queue, group, &option.flavor) {
            continue;
        }
        let mut worst = Outlook { way: Way::Fit, reach: 0 };
        let mut parts = Vec::new();
        for &(resource, amount) in requests {
            let Some(&kind) = model.tree.kind_of.get(&(option.flavor.clone(), resource.clone())) else {
                worst = HOPELESS;
                break;
            };
            let outlook = outlook(model, job, queue, kind, amount);
            if outlook.way == Way::NoFit {
                let never = amount > model.tree.cell(queue, kind).potential;
                let why = if never { WaitReason::ExceedsQuota } else { WaitReason::QuotaInUse };
                choice.why = if choice.why == WaitReason::QuotaInUse { choice.why } else { why };
            }
            if is_better(worst, outlook, fungibility) {
                worst = outlook;
            }
            if outlook.way == Way::NoFit {
                worst = HOPELESS;
                break;
            }
            parts.push((kind, amount, outlook));
        }
        if is_good_enough(worst, fungibility) {
            best = (worst, parts);
            break;
        }
        if is_better(worst, best.0, fungibility) {
            best = (worst, parts);
        }
    }
    choice.parts = best.1;
    choice
}

/// Whether the workload may use the flavor at all.
fn suits(model: &Model<'_>, job: usize, queue: usize, group: &ResourceGroup, flavor: &FlavorName) -> bool {
    let workload = model.jobs[job].spec;
    let of_queue = &model.queues[queue];
    if workload.barred.contains(flavor) {
        return false;
    }
    match (&workload.topology, model.nodes.has(flavor)) {
        (Some(wish), true) => model.nodes.has_level(flavor, wish),
        // A group without topology beside one that has it, such as a currency that only counts.
        (Some(_), false) => {
            let has = |group: &ResourceGroup| group.flavors.iter().any(|one| model.nodes.has(&one.flavor));
            !has(group) && of_queue.spec.groups.iter().any(has)
        }
        (None, true) => of_queue.is_topology_only,
        (None, false) => true,
    }
}

fn outlook(model: &mut Model<'_>, job: usize, queue: usize, kind: Kind, amount: i64) -> Outlook {
    let cell = model.tree.cell(queue, kind);
    if amount > cell.potential {
        return HOPELESS;
    }
    let (reach, more_above) = model.tree.reach(queue, kind, amount);
    if amount <= model.tree.available(queue, kind) {
        return Outlook { way: Way::Fit, reach };
    }
    let policy = &model.queues[queue].spec.preemption;
    let fair = matches!(model.mode, Mode::FairSharing { .. });
    let borrows = policy.borrow_within_cohort.is_some() || (fair && policy.reclaim != Reclaim::Never);
    if amount > cell.nominal && !more_above && !borrows {
        return HOPELESS;
    }
    let requests = vec![(kind, amount)];
    let found = victims(model, &Seeker { job, queue, requests: &requests, short: &[kind], place_on: None });
    if found.is_empty() {
        return Outlook { way: Way::NoVictims, reach };
    }
    found.iter().for_each(|&(job, _)| model.take_away(job));
    let (reach, _) = model.tree.reach(queue, kind, amount);
    found.iter().for_each(|&(job, _)| model.put_back(job));
    let own = found.iter().any(|&(job, _)| model.jobs[job].queue == Some(queue));
    Outlook { way: if own { Way::Preempt } else { Way::Reclaim }, reach }
}

fn is_better(a: Outlook, b: Outlook, fungibility: Fungibility) -> bool {
    if a.way == Way::NoFit || b.way == Way::NoFit {
        return a.way != Way::NoFit;
    }
    let (nearer, easier) = (b.reach.cmp(&a.reach), a.way.cmp(&b.way));
    let order = if fungibility.preempt_over_borrow { nearer.then(easier) } else { easier.then(nearer) };
    order.is_gt()
}

const fn is_good_enough(outlook: Outlook, fungibility: Fungibility) -> bool {
    let near = outlook.reach == 0 || fungibility.stop_when_borrowing;
    match outlook.way {
        Way::Fit => near,
        Way::Preempt | Way::Reclaim => near && fungibility.stop_when_preempting,
        Way::NoVictims | Way::NoFit => false,
    }
}

fn covers(group: &ResourceGroup, resource: &ResourceName) -> bool {
    group.flavors.iter().any(|flavor| flavor.quotas.contains_key(resource))
}

/// What a workload asks of a group. A queue that has quota for `pods` counts them.
fn asked<'a>(workload: &'a Workload, group: &'a ResourceGroup) -> impl Iterator<Item = (&'a ResourceName, i64)> {
    let resources = group.flavors.first().into_iter().flat_map(|flavor| flavor.quotas.keys());
    let amounts = resources.filter_map(|resource| match workload.requests.get(resource) {
        Some(&amount) => Some((resource, amount)),
        None => (resource.as_str() == PODS).then_some((resource, i64::from(workload.pods))),
    });
    amounts.filter(|(_, amount)| *amount > 0)
}
