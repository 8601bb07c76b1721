//! What could not be read, and what a person can do about it.

use std::collections::BTreeMap;

use super::kinds::KUEUE_VERSION;
use super::observe::{Found, Problem};
use super::served::Served;
use super::wire::Failure;
use crate::observed::Gap;

/// Problems of reads that were made together, by the part that they belong to.
#[derive(Default)]
pub struct Gaps(BTreeMap<&'static str, Problem>);

impl Gaps {
    /// What was read, or nothing, and the problem is kept.
    pub fn take<T: Default>(&mut self, part: &'static str, found: Found<T>) -> T {
        found.unwrap_or_else(|problem| {
            self.0.entry(part).or_insert(problem);
            T::default()
        })
    }

    /// The first gap in any of these.
    pub fn of(&self, parts: &[&str]) -> Option<Gap> {
        parts.iter().find_map(|part| self.0.get(part)).map(|(what, failure)| gap(what, failure))
    }
}

pub fn gap(what: &str, failure: &Failure) -> Gap {
    let said = failure.text();
    let why = match failure {
        Failure::Api(refused) if refused.code == 401 => {
            format!("{said}: the credentials are not accepted. They may have expired: log in to the cluster again")
        }
        Failure::Api(refused) if refused.code == 403 => {
            let (verb, kind) = what.split_once(' ').unwrap_or(("get", what));
            let kind = kind.split(' ').next().unwrap_or(kind);
            format!("{said}. Grant `{verb}` on {kind} to whoever runs this, with a ClusterRole and its binding")
        }
        Failure::Unsent(_) => format!("{said}. Check the address in the kubeconfig, and the way to it"),
        _ => said,
    };
    Gap { what: what.into(), why }
}

pub fn kueue_is_missing(served: &Served) -> Gap {
    let here = served.kueue_versions();
    let why = if here.is_empty() {
        "this cluster has no Kueue, which queues and quotas are compiled for: install Kueue 0.15 or newer".into()
    } else {
        let (here, are) = (here.join(" and "), KUEUE_VERSION);
        format!("this cluster's Kueue has only {here} of its API, and {are} is needed: update Kueue to 0.15 or newer")
    };
    Gap { what: "list clusterqueues.kueue.x-k8s.io".into(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::k8s::wire::Refused;

    fn refused(code: u16, message: &str) -> Failure {
        Failure::Api(Box::new(Refused { code, message: message.into(), ..Refused::default() }))
    }

    #[test]
    fn a_gap_says_what_to_do_about_it() {
        let text = gap("list nodes", &refused(403, "nodes is forbidden: User \"ann\" cannot list")).why;
        assert!(text.contains("User \"ann\"") && text.contains("Grant `list` on nodes"), "{text}");
        let text = gap("get clusterqueues vision", &refused(403, "no")).why;
        assert!(text.contains("Grant `get` on clusterqueues to"), "{text}");
        let text = gap("list nodes", &refused(401, "Unauthorized")).why;
        assert!(text.contains("log in"), "{text}");
        let text = gap("the API server", &Failure::Unsent("connection refused".into())).why;
        assert!(text.contains("kubeconfig"), "{text}");
    }

    #[test]
    fn a_cluster_without_kueue_is_told_how_to_get_it() {
        assert!(kueue_is_missing(&Served::default()).why.contains("install Kueue"));
    }
}
