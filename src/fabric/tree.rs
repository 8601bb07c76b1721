//! The tree that hosts hang on: levels from coarse to fine, and below the finest the hosts.
//!
//! Hosts are kept in the order of the tree, so that every domain is a range of hosts and of finest domains. A host whose
//! place is not known on some level hangs there alone: it is close to nobody, it is told, and it is never left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ids::{LevelName, NodeName};

/// How many levels a fabric may have.
pub const MOST_LEVELS: usize = 16;

/// Where a host hangs, from the top; none where that is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub host: NodeName,
    pub path: Vec<Option<String>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Coarse to fine; at least one.
    pub levels: Vec<LevelName>,
    /// In the order of the tree, then by name.
    pub hosts: Vec<NodeName>,
    /// By level. The last level has the finest domains, which are called leaves here whatever their level's name is.
    pub domains: Vec<Vec<Domain>>,
    /// By level: the domain above each leaf.
    pub above: Vec<Vec<u32>>,
    /// By host: its leaf.
    pub leaf_of: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    pub name: String,
    /// Another of its level has the same name, below another one.
    pub has_namesake: bool,
    /// In the level above; 0 in the topmost.
    pub parent: u32,
    /// In the level below; empty in the finest.
    pub children: Range<u32>,
    pub leaves: Range<u32>,
    pub hosts: Range<u32>,
}

/// Something that is wrong with where a host says that it hangs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Note {
    pub host: NodeName,
    pub level: LevelName,
    pub what: Oddity,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Oddity {
    /// It does not say where it hangs on this level, and hangs there alone.
    Missing,
    /// It does not say, and was hung where all others are that share its place on a finer level.
    Inferred { domain: String },
    /// Most that name this domain stand elsewhere above it: two domains with one name.
    Elsewhere { domain: String, above: String, most: String },
    /// The same, where as many say one as say another.
    Torn { domain: String, above: String, others: String },
}

impl Tree {
    /// Grows the tree from any places. Paths that are shorter than the levels end in unknown places, longer ones are
    /// cut off; with no level at all there is one, and everybody shares it.
    pub fn grow(levels: &[LevelName], places: Vec<Place>) -> (Self, Vec<Note>) {
        let mut places = places;
        let flat = levels.is_empty();
        let levels: Vec<LevelName> = if flat { vec!["fleet".into()] } else { levels.to_vec() };
        for place in &mut places {
            if flat {
                place.path = vec![Some("all".into())];
            }
            place.path.resize(levels.len(), None);
        }
        places.sort_by(|a, b| a.host.cmp(&b.host));
        places.dedup_by(|a, b| a.host == b.host);
        let mut notes = infer(&levels, &mut places);
        notes.append(&mut namesakes(&levels, &places));
        let mut paths: Vec<(Vec<String>, NodeName)> = Vec::with_capacity(places.len());
        for place in places {
            paths.push((settle(&levels, &place, &mut notes), place.host));
        }
        paths.sort();
        notes.sort();
        (Self::from_sorted(levels, paths), notes)
    }

    fn from_sorted(levels: Vec<LevelName>, paths: Vec<(Vec<String>, NodeName)>) -> Self {
        let depth = levels.len();
        let mut tree = Self {
            hosts: Vec::with_capacity(paths.len()),
            domains: vec![Vec::new(); depth],
            above: vec![Vec::new(); depth],
            leaf_of: Vec::with_capacity(paths.len()),
            levels,
        };
        let mut last: Vec<String> = Vec::new();
        for (path, host) in paths {
            let same = last.iter().zip(&path).take_while(|(a, b)| a == b).count();
            for (level, name) in path.iter().enumerate().skip(same) {
                tree.open(level, name);
            }
            let leaf = tree.leaves() - 1;
            if same < depth {
                for level in 0..depth {
                    let domain = number(tree.domains[level].len() - 1);
                    tree.above[level].push(domain);
                }
            }
            tree.leaf_of.push(number(leaf));
            tree.hosts.push(host);
            for level in 0..depth {
                if let Some(domain) = tree.domains[level].last_mut() {
                    domain.hosts.end += 1;
                    domain.leaves.end = number(leaf + 1);
                }
            }
            last = path;
        }
        for domains in &mut tree.domains {
            let mut known: BTreeMap<&str, u32> = BTreeMap::new();
            domains.iter().for_each(|domain| *known.entry(&domain.name).or_default() += 1);
            let twice: BTreeSet<String> =
                known.into_iter().filter(|(_, many)| *many > 1).map(|(name, _)| name.to_string()).collect();
            domains.iter_mut().for_each(|domain| domain.has_namesake = twice.contains(&domain.name));
        }
        tree
    }

    /// The domain of the last level of a path.
    pub fn find(&self, path: &[Option<String>]) -> Option<u32> {
        let mut inside = None;
        for (domains, name) in self.domains.iter().zip(path) {
            let name = name.as_ref()?;
            let is_it = |(_, one): &(u32, &Domain)| one.name == *name && inside.is_none_or(|above| one.parent == above);
            inside = Some((0..).zip(domains).find(is_it)?.0);
        }
        inside
    }

    fn open(&mut self, level: usize, name: &str) {
        let leaf = number(self.domains[self.domains.len() - 1].len());
        let host = number(self.hosts.len());
        let below = self.domains.get(level + 1).map_or(0, |below| number(below.len()));
        let mut parent = 0;
        if level > 0
            && let Some(above) = self.domains[level - 1].last_mut()
        {
            above.children.end += 1;
            parent = number(self.domains[level - 1].len() - 1);
        }
        let name = name.to_string();
        self.domains[level].push(Domain {
            name,
            has_namesake: false,
            parent,
            children: below..below,
            leaves: leaf..leaf,
            hosts: host..host,
        });
    }

    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// How many of the finest domains there are.
    pub fn leaves(&self) -> usize {
        self.domains[self.domains.len() - 1].len()
    }

    pub fn level(&self, name: &LevelName) -> Option<usize> {
        self.levels.iter().position(|level| level == name)
    }

    /// The names on the way to a domain, from the top.
    pub fn path(&self, level: usize, domain: usize) -> Vec<&str> {
        let (mut path, mut at) = (Vec::new(), domain);
        for level in (0..=level).rev() {
            path.push(self.domains[level][at].name.as_str());
            at = self.domains[level][at].parent as usize;
        }
        path.reverse();
        path
    }

    /// What a reader calls a domain: its name, and the way to it where others have the same name.
    pub fn called(&self, level: usize, domain: usize) -> String {
        let found = &self.domains[level][domain];
        if found.has_namesake { self.path(level, domain).join(" / ") } else { found.name.clone() }
    }

    /// How many levels two leaves do not share.
    pub fn distance(&self, one: usize, other: usize) -> usize {
        self.above.iter().filter(|above| above[one] != above[other]).count()
    }
}

/// Fills in what others who share a finer place agree on: a leaf hangs below one block, whoever forgot to say so.
fn infer(levels: &[LevelName], places: &mut [Place]) -> Vec<Note> {
    let mut notes = Vec::new();
    for level in (0..levels.len().saturating_sub(1)).rev() {
        let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for place in places.iter() {
            if let (Some(above), Some(below)) = (&place.path[level], &place.path[level + 1]) {
                known.entry(below).or_default().insert(above);
            }
        }
        let known: BTreeMap<String, String> = known
            .into_iter()
            .filter(|(_, above)| above.len() == 1)
            .filter_map(|(below, above)| Some((below.to_string(), above.into_iter().next()?.to_string())))
            .collect();
        for place in places.iter_mut().filter(|place| place.path[level].is_none()) {
            let found = place.path[level + 1].as_ref().and_then(|below| known.get(below));
            if let Some(domain) = found {
                place.path[level] = Some(domain.clone());
                let what = Oddity::Inferred { domain: domain.clone() };
                notes.push(Note { host: place.host.clone(), level: levels[level].clone(), what });
            }
        }
    }
    notes
}

/// Names below one domain, and below each the hosts that say so.
type Named<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a NodeName>>>;

/// Domains of one name below different ones: taken as different. Where most who name one stand together, the others are
/// told, and else all; not where names are given out anew below each domain.
fn namesakes(levels: &[LevelName], places: &[Place]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (level, own_level) in levels.iter().enumerate().skip(1) {
        let mut known: Named<'_> = BTreeMap::new();
        for place in places {
            if let (Some(above), Some(own)) = (&place.path[level - 1], &place.path[level]) {
                known.entry(own).or_default().entry(above).or_default().push(&place.host);
            }
        }
        if are_anew(&known) {
            continue;
        }
        for (domain, above) in known.into_iter().filter(|(_, above)| above.len() > 1) {
            let all: usize = above.values().map(Vec::len).sum();
            let most = above.iter().find(|(_, hosts)| hosts.len() * 2 > all).map(|(name, _)| *name);
            for (name, hosts) in above.iter().filter(|(name, _)| Some(**name) != most) {
                let (domain, above_it) = (domain.to_string(), (*name).to_string());
                let what = match most {
                    Some(most) => Oddity::Elsewhere { domain, above: above_it, most: most.into() },
                    None => {
                        let others: Vec<&str> = above.keys().copied().filter(|other| other != name).collect();
                        Oddity::Torn { domain, above: above_it, others: others.join(" or ") }
                    }
                };
                let note =
                    |host: &&NodeName| Note { host: (*host).clone(), level: own_level.clone(), what: what.clone() };
                notes.extend(hosts.iter().map(note));
            }
        }
    }
    notes
}

/// Whether names are given out anew below each domain: most of them stand below most domains, and most of those with no few
/// hosts beside many, as a label that is wrong would have it.
fn are_anew(known: &Named<'_>) -> bool {
    let domains: BTreeSet<&str> = known.values().flat_map(|above| above.keys().copied()).collect();
    let is_common = |above: &&BTreeMap<&str, Vec<&NodeName>>| above.len() > 1 && above.len() * 2 > domains.len();
    let is_even = |above: &&BTreeMap<&str, Vec<&NodeName>>| {
        let (all, most) = above.values().fold((0, 0), |(all, most), hosts| (all + hosts.len(), most.max(hosts.len())));
        most * 4 <= all * 3
    };
    let common = known.values().filter(is_common).count();
    common * 2 > known.len() && known.values().filter(is_common).filter(is_even).count() * 2 > common
}

/// The path of a host with a name on every level: its own where nothing is known.
fn settle(levels: &[LevelName], place: &Place, notes: &mut Vec<Note>) -> Vec<String> {
    let name = |(level, known): (usize, &Option<String>)| match known {
        Some(known) => known.clone(),
        None => {
            notes.push(Note { host: place.host.clone(), level: levels[level].clone(), what: Oddity::Missing });
            format!("?{}", place.host)
        }
    };
    place.path.iter().enumerate().map(name).collect()
}

pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
