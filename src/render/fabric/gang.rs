//! Where a gang would go, or why it cannot.

use std::fmt::Write;

use crate::fabric::gang::{Answer, Fit, Gang, MakeRoom, Misfit};
use crate::plan::placing::Site;
use crate::render::plan::count;
use crate::render::plan::words::list;

/// For a person. `work` are the names of the work on hosts, by number.
pub fn gang(site: &Site, asked: &Gang, answer: &Answer, work: &[String]) -> String {
    match answer {
        Answer::Fits(fit) => fits(site, asked, fit),
        Answer::Not(misfit) => does_not(site, asked, misfit, work),
    }
}

fn fits(site: &Site, asked: &Gang, fit: &Fit) -> String {
    let tree = &site.tree;
    let finest = tree.depth() - 1;
    let mut leaves: Vec<(usize, Vec<&str>)> = Vec::new();
    for host in &fit.hosts {
        let leaf = tree.leaf_of[*host] as usize;
        match leaves.last_mut().filter(|(last, _)| *last == leaf) {
            Some((_, hosts)) => hosts.push(tree.hosts[*host].as_str()),
            None => leaves.push((leaf, vec![tree.hosts[*host].as_str()])),
        }
    }
    let pool = site.pools.get(fit.kind as usize).map_or("", |name| name.as_str());
    let nodes = count(u32::try_from(fit.hosts.len()).unwrap_or(u32::MAX), "node");
    let mut out = format!("{} GPUs fit now: {nodes} of pool {pool}\n", asked.gpus);
    for (leaf, hosts) in leaves {
        let path = tree.path(finest, leaf).join(" / ");
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_string()).collect();
        writeln!(out, "  {path}: {}", list(&hosts, 16)).expect("a text takes everything");
    }
    let millis = |seconds: f64| format!("{:.1} ms", seconds * 1_000.0);
    let crossed = match fit.crossed {
        0 => format!("inside one {}", tree.levels[finest]),
        many => format!("across {}", tree.levels[tree.depth() - many]),
    };
    let times = fit.seconds / fit.at_best;
    let beside = if times > 1.005 {
        format!("{times:.2} times as long as at the best place of an empty fleet ({})", millis(fit.at_best))
    } else {
        "as good as any place of an empty fleet".into()
    };
    writeln!(out, "An all-reduce of 1 GB takes about {} {crossed}, {beside}.", millis(fit.seconds))
        .expect("a text takes everything");
    out += "(Estimated with half the bandwidth for every level that is crossed.)\n";
    out
}

fn does_not(site: &Site, asked: &Gang, misfit: &Misfit, work: &[String]) -> String {
    let tree = &site.tree;
    let level = asked.together.filter(|_| asked.required);
    let within = level.map_or("the fleet".to_string(), |level| format!("one {}", tree.levels[level]));
    let needs = count(misfit.needs, "node");
    let mut out = format!("{} GPUs do not fit now: they need {needs} in {within}", asked.gpus);
    let name = |domain: u32| level.map(|level| tree.path(level, domain as usize).join(" / "));
    let most = count(misfit.most, "free node");
    let of = misfit.domain.and_then(name).map(|name| format!(" ({name})")).unwrap_or_default();
    writeln!(out, ", and the most that one has is {most}{of}.").expect("a text takes everything");
    if misfit.ever < misfit.needs {
        let ever = count(misfit.ever, "node");
        writeln!(out, "They never will: without any work the largest has {ever}.").expect("a text takes everything");
        return out;
    }
    match &misfit.room {
        Some(room) => out += &moves(site, room, work, name(room.domain)),
        None => out += "No move makes room: what would be emptied has no other place to go.\n",
    }
    out
}

fn moves(site: &Site, room: &MakeRoom, work: &[String], domain: Option<String>) -> String {
    let hosts: Vec<String> = room.empty.iter().map(|host| site.tree.hosts[*host].to_string()).collect();
    let begun: Vec<String> = room.work.iter().filter_map(|at| work.get(*at as usize).cloned()).collect();
    let place = domain.map(|domain| format!(" in {domain}")).unwrap_or_default();
    let mut out = format!("The smallest move that makes room{place}: empty {}", list(&hosts, 16));
    if !begun.is_empty() {
        write!(out, ", where {} would begin again elsewhere", list(&begun, 8)).expect("a text takes everything");
    }
    out += ".\n";
    for host in &hosts {
        writeln!(out, "  tidewright drain {host}").expect("a text takes everything");
    }
    out
}
