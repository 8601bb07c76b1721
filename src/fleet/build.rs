//! Parts to a Fleet: every rule across objects, in an order in which none reports what another has reported.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Fleet, Kind, ObjectRef, Parts, rules};
use crate::diag::{At, Diagnostic, Span, codes, nearest};

/// What is known about documents that could not be read: rules are silent about what these may hold.
#[derive(Clone, Default, Debug)]
pub struct Unread {
    /// Objects whose documents are wrong. That has been reported; what names them is not wrong too.
    pub broken: BTreeSet<ObjectRef>,
    /// Some document did not even say what it is: any name may be in it.
    pub blind: bool,
    /// The Fleet document is missing or wrong, so the head of the parts is made up.
    pub headless: bool,
}

/// What the rules have found so far.
#[derive(Debug)]
pub struct Problems<'a> {
    pub parts: &'a Parts,
    pub now: Timestamp,
    pub unread: &'a Unread,
    found: Vec<Diagnostic>,
    /// Objects that a rule found wrong: sums that they are part of are not looked at.
    spoilt: BTreeSet<ObjectRef>,
}

impl Fleet {
    /// Checks everything that can be known from the files. `now` is where the next two weeks begin: sums are checked at
    /// every instant of them.
    pub fn build(parts: Parts, unread: &Unread, now: Timestamp) -> (Option<Self>, Vec<Diagnostic>) {
        let mut problems = Problems { parts: &parts, now, unread, found: Vec::new(), spoilt: unread.broken.clone() };
        rules::check(&mut problems);
        let found = problems.found;
        let whole = !unread.blind && !unread.headless && unread.broken.is_empty();
        let valid = whole && !found.iter().any(Diagnostic::is_error);
        (valid.then_some(Self(parts)), found)
    }
}

impl<'a> Problems<'a> {
    pub fn say(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Reports a mistake of an object, and keeps the object out of sums.
    pub fn blame(&mut self, kind: Kind, name: &str, diagnostic: Diagnostic) {
        self.spoil(kind, name);
        self.found.push(diagnostic);
    }

    /// Keeps an object out of sums: something that was reported is wrong with it.
    pub fn spoil(&mut self, kind: Kind, name: &str) {
        self.spoilt.insert(ObjectRef { kind, name: name.into() });
    }

    pub fn is_sound(&self, kind: Kind, name: &str) -> bool {
        !self.spoilt.contains(&ObjectRef { kind, name: name.into() })
    }

    /// Reports a name that nothing has. `found` is whether it is there, `known` are the names that are; `owner` is what
    /// names it, and is spoilt when it is not there.
    pub fn resolve<'n>(
        &mut self,
        kind: Kind,
        name: At<&str>,
        found: bool,
        known: impl Iterator<Item = &'n str> + Clone,
        owner: (Kind, &str),
    ) where
        'a: 'n,
    {
        if found {
            return;
        }
        let wanted = ObjectRef { kind, name: name.value.into() };
        self.spoil(owner.0, owner.1);
        if self.unread.blind || self.unread.broken.contains(&wanted) {
            return;
        }
        let renamed = self.parts.origins.iter().find(|(object, origin)| {
            object.kind == kind && origin.renamed_from.as_ref().is_some_and(|old| old.value == name.value)
        });
        let broken = self.unread.broken.iter().filter(|object| object.kind == kind).map(|object| object.name.as_str());
        let mut known: Vec<&str> = known.chain(broken).collect();
        known.sort_unstable();
        let hint = match (renamed, nearest(name.value, known.iter().copied())) {
            (Some((object, _)), _) => format!("it was renamed: write `{}`", object.name),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => match known.as_slice() {
                [] => format!("there is no {} at all: add one", kind.name()),
                [only] => format!("the only {} is `{only}`", kind.name()),
                [some @ .., _] if some.len() >= 5 => format!("there are {} and others", some[..5].join(", ")),
                some => format!("there are {}", some.join(", ")),
            },
        };
        self.found.push(
            Diagnostic::error(codes::UNKNOWN_REFERENCE, format!("there is no {} named `{}`", kind.name(), name.value))
                .at(name.at, "")
                .hint(hint),
        );
    }

    /// Reports the second of two equal entries of a list, and keeps the list's owner out of sums.
    pub fn once<T: Ord + std::fmt::Display>(
        &mut self,
        owner: (Kind, &str),
        what: &str,
        entries: impl Iterator<Item = (T, Span)>,
    ) {
        let mut seen: std::collections::BTreeMap<T, Span> = std::collections::BTreeMap::new();
        for (entry, span) in entries {
            if let Some(first) = seen.get(&entry) {
                let message = format!("{what} `{entry}` is listed twice");
                let first = *first;
                let said =
                    Diagnostic::error(codes::LISTED_TWICE, message).at(span, "again").at(first, "the first time");
                self.blame(owner.0, owner.1, said.hint("keep one of them"));
            } else {
                seen.insert(entry, span);
            }
        }
    }
}
