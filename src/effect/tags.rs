//! What our things in the cloud carry: tags that say whose they are and what for.
//!
//! A tag is written with the thing itself, in the request that makes it, so that nothing of ours is ever without one.
//! The provider of EC2 writes and reads them, and so does the simulated EC2 behind its endpoint.

use std::collections::BTreeMap;

use crate::ids::{Digest, FleetUid, OfferingId, ReservationName};
use crate::observed::{ReservationTag, SlotTag};

/// The fleet that a thing belongs to.
pub const FLEET: &str = "tidewright.dev/fleet";
/// The slot that an instance was launched for: `train/3`.
pub const SLOT: &str = "tidewright.dev/slot";
/// The document that a reservation was made for.
pub const RESERVATION: &str = "tidewright.dev/reservation";
/// How many requests were made for that slot or document before, and this one.
pub const GENERATION: &str = "tidewright.dev/generation";
/// The digest of the template that an instance was launched with, or that a template's newest version has.
pub const TEMPLATE: &str = "tidewright.dev/template";
/// The offer that a Capacity Block was bought by: EC2 does not say.
pub const OFFERING: &str = "tidewright.dev/offering";
/// What the consoles show.
pub const NAME: &str = "Name";

/// Tags by their key.
pub type Tags = BTreeMap<String, String>;

pub fn of_fleet(fleet: &FleetUid, name: &str) -> Tags {
    [(FLEET, fleet.as_str()), (NAME, name)].map(owned).into()
}

pub fn of_slot(tag: &SlotTag, template: &Digest) -> Tags {
    let (slot, generation) = (tag.slot.to_string(), tag.generation.to_string());
    let name = format!("{}/{slot}", tag.fleet);
    let tags = [
        (FLEET, tag.fleet.as_str()),
        (SLOT, &slot),
        (GENERATION, &generation),
        (TEMPLATE, template.as_str()),
        (NAME, &name),
    ];
    tags.map(owned).into()
}

pub fn of_reservation(tag: &ReservationTag) -> Tags {
    let (generation, name) = (tag.generation.to_string(), format!("{}/{}", tag.fleet, tag.reservation));
    let tags = [
        (FLEET, tag.fleet.as_str()),
        (RESERVATION, tag.reservation.as_str()),
        (GENERATION, &generation),
        (NAME, &name),
    ];
    tags.map(owned).into()
}

/// A purchase has no generation: it is made once.
pub fn of_purchase(fleet: &FleetUid, reservation: &ReservationName, offering: &OfferingId) -> Tags {
    let tag = ReservationTag { fleet: fleet.clone(), reservation: reservation.clone(), generation: 0 };
    let mut tags = of_reservation(&tag);
    tags.insert(OFFERING.into(), offering.to_string());
    tags
}

/// Whose an instance is, where all of it can be read.
pub fn slot(tags: &Tags) -> Option<SlotTag> {
    let fleet = tags.get(FLEET)?.as_str().into();
    let generation = tags.get(GENERATION)?.parse().ok()?;
    Some(SlotTag { fleet, slot: tags.get(SLOT)?.parse().ok()?, generation })
}

/// Whose a reservation is.
pub fn reservation(tags: &Tags) -> Option<ReservationTag> {
    let fleet = tags.get(FLEET)?.as_str().into();
    let generation = tags.get(GENERATION)?.parse().ok()?;
    Some(ReservationTag { fleet, reservation: tags.get(RESERVATION)?.as_str().into(), generation })
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_string(), value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SlotId;

    #[test]
    fn what_is_written_is_read_back() {
        let tag = SlotTag { fleet: "ml".into(), slot: SlotId::new(&"train".into(), 3), generation: 7 };
        let tags = of_slot(&tag, &"d1".into());
        assert_eq!((slot(&tags), tags[TEMPLATE].as_str(), tags[NAME].as_str()), (Some(tag), "d1", "ml/train/3"));
        let tag = ReservationTag { fleet: "ml".into(), reservation: "h100".into(), generation: 2 };
        assert_eq!(reservation(&of_reservation(&tag)), Some(tag));
        let bought = of_purchase(&"ml".into(), &"block".into(), &"cb-1".into());
        assert_eq!((bought[OFFERING].as_str(), reservation(&bought).unwrap().generation), ("cb-1", 0));
    }

    #[test]
    fn tags_that_are_not_all_there_name_nobody() {
        let tag = SlotTag { fleet: "ml".into(), slot: SlotId::new(&"train".into(), 3), generation: 7 };
        for key in [FLEET, SLOT, GENERATION] {
            let mut tags = of_slot(&tag, &"d1".into());
            tags.remove(key);
            assert_eq!(slot(&tags), None, "{key}");
        }
        let mut tags = of_slot(&tag, &"d1".into());
        tags.insert(SLOT.into(), "train".into());
        assert_eq!(slot(&tags), None);
    }
}
