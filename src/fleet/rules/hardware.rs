//! What the nodes are: instance types, the fleet's own shapes and prices, the fabric.

use std::collections::BTreeMap;

use crate::diag::{Diagnostic, Span, codes, nearest};
use crate::fleet::build::Problems;
use crate::fleet::pool::{Pool, Size, Source};
use crate::fleet::{Fabric, Kind};
use crate::hardware::catalogue;
use crate::ids::InstanceType;

pub fn check(p: &mut Problems<'_>) {
    if p.unread.headless {
        return;
    }
    shapes(p);
    prices(p);
    fabric(p);
    let pools = p.parts.pools.iter().map(|(name, pool)| (Kind::NodePool, name.as_str(), &pool.instance_type));
    let reservations =
        p.parts.reservations.iter().map(|(name, r)| (Kind::Reservation, name.as_str(), &r.instance_type));
    let mut unknown: BTreeMap<&InstanceType, Vec<(Kind, &str, Span)>> = BTreeMap::new();
    for (kind, name, instance_type) in pools.chain(reservations) {
        if !types(p).any(|known| known == instance_type.value.as_str()) {
            unknown.entry(&instance_type.value).or_default().push((kind, name, instance_type.at));
        }
    }
    for (instance_type, users) in unknown {
        unknown_type(p, instance_type, &users);
    }
}

fn types<'a>(p: &Problems<'a>) -> impl Iterator<Item = &'a str> {
    let own = p.parts.hardware.iter().map(|shape| shape.name.value.as_str());
    own.chain(catalogue().types.keys().map(InstanceType::as_str))
}

/// One missing description, however many objects would need it.
fn unknown_type(p: &mut Problems<'_>, instance_type: &InstanceType, users: &[(Kind, &str, Span)]) {
    // Types of other families have similar names: a misspelt one begins with the right letter.
    let near =
        nearest(instance_type.as_str(), types(p).filter(|near| near.get(..1) == instance_type.as_str().get(..1)));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? {DESCRIBE}"),
        None => DESCRIBE.into(),
    };
    let mut said =
        Diagnostic::error(codes::UNKNOWN_HARDWARE, format!("nothing describes the instance type `{instance_type}`"));
    for (index, (kind, name, at)) in users.iter().enumerate() {
        said = said.at(*at, if index == 0 { "" } else { "and here" });
        p.spoil(*kind, name);
    }
    p.say(said.hint(hint));
}

const DESCRIBE: &str = "`tidewright hardware` lists what is known; describe others in `hardware` of the Fleet";

fn shapes(p: &mut Problems<'_>) {
    let catalogue = catalogue();
    let owner = (Kind::Fleet, p.parts.name.value.as_str());
    p.once(owner, "the shape", p.parts.hardware.iter().map(|shape| (shape.name.value.as_str(), shape.name.at)));
    for shape in &p.parts.hardware {
        if catalogue.types.contains_key(&shape.name.value) {
            p.say(
                Diagnostic::error(
                    codes::HARDWARE_OVERRIDE,
                    format!("the catalogue knows `{}` already", shape.name.value),
                )
                .at(shape.name.at, "")
                .hint("use `prices` to change what it costs, or choose another name"),
            );
        }
        if let Some(gpu) = shape.gpu.as_ref().filter(|gpu| !catalogue.gpus.contains_key(&gpu.value)) {
            let models = || catalogue.gpus.keys().map(|model| model.as_str());
            let same: Vec<&str> = models().filter(|model| model.starts_with(gpu.value.as_str())).collect();
            let hint = match (same.as_slice(), nearest(gpu.value.as_str(), models())) {
                ([_, _, ..], _) => format!("did you mean one of {}?", same.join(", ")),
                (_, Some(near)) => format!("did you mean `{near}`?"),
                (_, None) => format!("the models are {}", models().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("the catalogue has no GPU model `{}`", gpu.value);
            p.say(Diagnostic::error(codes::UNKNOWN_HARDWARE, message).at(gpu.at, "").hint(hint));
        }
        match (&shape.gpu, shape.gpus.value) {
            (Some(gpu), 0) => {
                let message = format!("the shape `{}` has a GPU model and no GPUs", shape.name.value);
                p.say(
                    Diagnostic::error(codes::HARDWARE_OVERRIDE, message)
                        .at(gpu.at, "")
                        .hint("add `gpus: 8`, or remove `gpu`"),
                );
            }
            (None, 1..) => {
                let message = format!("the shape `{}` has GPUs and no model", shape.name.value);
                p.say(
                    Diagnostic::error(codes::HARDWARE_OVERRIDE, message)
                        .at(shape.gpus.at, "")
                        .hint("add `gpu: …`, a model of `tidewright hardware`, or remove `gpus`"),
                );
            }
            _ => {}
        }
    }
}

fn prices(p: &mut Problems<'_>) {
    for (name, price) in &p.parts.prices {
        if !types(p).any(|known| known == name.as_str()) {
            let hint = match nearest(name.as_str(), types(p)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => DESCRIBE.into(),
            };
            let message = format!("a price for `{name}`, which nothing describes");
            p.say(Diagnostic::error(codes::HARDWARE_OVERRIDE, message).at(price.at, "").hint(hint));
        }
    }
}

/// Nodes that a declared fabric does not name have no place on it.
fn fabric_holds(p: &mut Problems<'_>, fabric: &Fabric) {
    let Some(declared) = fabric.declared.as_ref().filter(|declared| !declared.is_empty()) else { return };
    let claims = |pool: &&Pool| pool.capacity.iter().any(|source| matches!(source.value, Source::Existing { .. }));
    let pools: Vec<(&Pool, u32)> = p
        .parts
        .pools
        .values()
        .filter(claims)
        .filter_map(|pool| match pool.size.value {
            Size::Nodes(nodes) => Some((pool, nodes)),
            Size::Fill => None,
        })
        .collect();
    let wanted = pools.iter().map(|(_, nodes)| *nodes).fold(0, u32::saturating_add);
    if wanted as usize <= declared.len() {
        return;
    }
    let message = format!("the declared fabric has {} nodes, and pools claim {wanted}", declared.len());
    let mut said = Diagnostic::warning(codes::FABRIC, message);
    for (pool, nodes) in pools {
        said = said.at(pool.size.at, format!("{nodes} of them in `{}`", pool.name.value));
    }
    p.say(said.hint("add the missing nodes to the file: a node that it does not name has no place on the fabric"));
}

/// The label of a single node.
const HOSTNAME: &str = "kubernetes.io/hostname";

fn fabric(p: &mut Problems<'_>) {
    let Some(fabric) = &p.parts.fabric else { return };
    let owner = (Kind::Fleet, p.parts.name.value.as_str());
    p.once(owner, "the level", fabric.levels.iter().map(|level| (level.name.value.as_str(), level.name.at)));
    let mut labels: BTreeMap<&str, Span> = BTreeMap::new();
    let above_the_last = fabric.levels.iter().rev().skip(1).filter_map(|level| level.node_label.as_ref());
    for label in above_the_last.filter(|label| label.value == HOSTNAME) {
        let message = format!("`{HOSTNAME}` is one node, and below it there is nothing");
        p.say(
            Diagnostic::error(codes::FABRIC, message)
                .at(label.at, "")
                .hint("write the levels coarse to fine: this label can only be the last"),
        );
    }
    fabric_holds(p, fabric);
    for level in &fabric.levels {
        match &level.node_label {
            None if fabric.declared.is_none() => {
                let message = format!("nothing says where a node is on the level `{}`", level.name.value);
                p.say(
                    Diagnostic::error(codes::FABRIC, message)
                        .at(level.name.at, "")
                        .hint("add `nodeLabel: …`, or declare the fabric in a file"),
                );
            }
            Some(label) => {
                if let Some(first) = labels.insert(&label.value, label.at) {
                    let message = format!("two levels read the label `{}`", label.value);
                    p.say(
                        Diagnostic::error(codes::FABRIC, message)
                            .at(label.at, "this one")
                            .at(first, "and this one")
                            .hint("give each level a label of its own"),
                    );
                }
            }
            None => {}
        }
    }
}
