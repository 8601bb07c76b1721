//! What other tools own: no node is cut where nobody reads the file that says how, and what ours needs of them is told.

use serde_json::Value;

use super::Found;
use super::case::Case;
use crate::effect::marks::{MIG_CONFIG, PLUGIN_CONFIG};
use crate::effect::{Action, ClusterAction};
use crate::fleet::standing::CutSpec;
use crate::ids::LayoutName;
use crate::observed::ObjectKind;
use crate::plan::WaitingOn;
use crate::queue::mode::{configuration, file};
use crate::units::Duration;

const READ: &str = "a node is cut only where its file is read";
const TOLD: &str = "what ours needs of other tools is told";

/// The maps that our entries are in.
const CUTS: &str = "tidewright-mig-parted";
const SHARES: &str = "tidewright-device-plugin";

/// A label that names an entry of a file that nobody reads makes the cut fail, on a node that was emptied for it.
pub fn cuts_are_carried_out(case: &Case<'_>, found: &mut Found) {
    let policies = &case.seen().cluster.others.policies;
    for (_, step) in case.each() {
        let Action::Cluster(ClusterAction::Cut { laid_out, .. }) = &step.action else { continue };
        let asks = |label: &str| laid_out.labels.contains_key(label);
        if !asks(MIG_CONFIG) && !asks(PLUGIN_CONFIG) {
            continue;
        }
        if let Some(gap) = policies.gap() {
            found.step(READ, &step.id, format!("nobody knows what is read: {}", gap.what));
        } else if !is_read(case, asks(MIG_CONFIG), asks(PLUGIN_CONFIG)) {
            found.step(READ, &step.id, "the ClusterPolicy names another file");
        }
    }
}

/// Whether some policy has these files read, or nobody's does: then there is no operator that would read another.
fn is_read(case: &Case<'_>, cuts: bool, shares: bool) -> bool {
    let names = |spec: &Value, part: &str, map: &str| {
        spec[part]["config"]["name"] == map && spec[part]["enabled"] != Value::Bool(false)
    };
    let reads = |body: &Value| {
        let spec = &body["spec"];
        let cut = names(spec, "migManager", CUTS) && spec["mig"]["strategy"] == "mixed";
        (cut || !cuts) && (names(spec, "devicePlugin", SHARES) || !shares)
    };
    let seen = case.seen().cluster.others.policies.seen();
    seen.is_empty() || seen.values().any(reads)
}

/// Slices that documents ask for need a policy that has them made; the time that a gang is promised needs a Kueue that
/// waits so long.
pub fn needs_are_told(case: &Case<'_>, found: &mut Found) {
    if !case.input.only.is_empty() || case.input.only_node.is_some() {
        return;
    }
    let standing = case.standing();
    let others = &case.seen().cluster.others;
    let cut = |layout: &LayoutName| standing.layouts.get(layout).map(|layout| &layout.cut);
    let own = standing.pools.values().map(|pool| &pool.layout);
    let lent = standing.tides.values().flat_map(|tide| &tide.loans).map(|loan| &loan.layout);
    let asks = own.chain(lent).any(|layout| matches!(cut(layout), Some(CutSpec::Mig(_))));
    let says = |kind: ObjectKind| {
        let told = |held: &crate::plan::Held| match &held.waiting_on {
            WaitingOn::OtherOwner { object, .. } => object.kind == kind,
            _ => false,
        };
        case.plan.held.iter().any(told)
    };
    if asks && others.policies.gap().is_none() && !is_read(case, true, false) && !says(ObjectKind::ClusterPolicy) {
        found.plan(TOLD, "the ClusterPolicy names another file of cuts, and nothing held says so");
    }
    let promised = standing.schedulers.values().filter_map(|profile| Some(profile.gang.as_ref()?.timeout)).max();
    let kueue = others.kueue.seen().as_ref().filter(|_| !standing.quotas.is_empty()).and_then(file);
    if let (Some(promised), Some((_, kueue))) = (promised, kueue) {
        let waits = kueue["waitForPodsReady"]["timeout"].as_str().and_then(|text| text.parse::<Duration>().ok());
        let told = case.plan.held.iter().any(|held| match &held.waiting_on {
            WaitingOn::OtherOwner { object, .. } => *object == configuration(),
            _ => false,
        });
        if waits != Some(promised) && !told {
            found.plan(TOLD, format!("Kueue does not wait {promised} for a gang, and nothing held says so"));
        }
    }
}
