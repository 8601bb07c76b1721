//! Reservations on their own: terms that EC2 would refuse, and approvals that contradict themselves.

use crate::diag::{Diagnostic, Span, codes};
use crate::fleet::Kind;
use crate::fleet::build::Problems;
use crate::fleet::config::Cloud;
use crate::fleet::reservation::{Approval, Block, Reservation, Terms};
use crate::units::Duration;

/// EC2 sells at most this many nodes in one block.
const BLOCK_NODES: u32 = 64;

pub fn check(p: &mut Problems<'_>) {
    for (name, reservation) in &p.parts.reservations {
        if !p.unread.headless && matches!(p.parts.cloud.value, Cloud::None(_)) {
            let message = "a reservation in a fleet whose cloud is `none`";
            let said = Diagnostic::error(codes::CAPACITY_WITHOUT_CLOUD, message)
                .at(reservation.name.at, "")
                .at(p.parts.cloud.at, "no cloud");
            p.blame(
                Kind::Reservation,
                name.as_str(),
                said.hint("remove the reservation, or name the cloud that it is in"),
            );
        }
        match &reservation.terms {
            Terms::OnDemand { .. } if reservation.zone.is_none() => {
                let message = "an on-demand reservation needs `zone`";
                let said = Diagnostic::error(codes::MISSING_FIELD, message).at(reservation.name.at, "");
                p.blame(
                    Kind::Reservation,
                    name.as_str(),
                    said.hint("add `zone: us-west-2a`, or the zone that it is in"),
                );
            }
            Terms::OnDemand { .. } => {}
            Terms::Block(block) => self::block(p, name.as_str(), reservation, block),
        }
    }
}

fn block(p: &mut Problems<'_>, name: &str, reservation: &Reservation, block: &Block) {
    let mut refuse = |message: String, at: Span, hint: &str| {
        p.blame(Kind::Reservation, name, Diagnostic::error(codes::BLOCK_TERMS, message).at(at, "").hint(hint));
    };
    const STEPS: &str = "EC2 sells whole days up to 14, then whole weeks up to 182 days";
    if !is_sold(block.duration.value) {
        refuse(format!("no block lasts {}", block.duration.value), block.duration.at, STEPS);
    }
    if let Some(extend) = &block.extend
        && !is_sold(extend.by)
    {
        refuse(format!("no extension lasts {}", extend.by), extend.at, STEPS);
    }
    if reservation.nodes.value > BLOCK_NODES {
        let message = format!("a block of {} nodes: one holds at most {BLOCK_NODES}", reservation.nodes.value);
        refuse(message, reservation.nodes.at, "write several reservations, and name them all in the pool");
    }
    match (&block.start, &block.window) {
        (None, None) => refuse(
            "nothing says when the block runs".into(),
            block.duration.at,
            "add `startBetween: {from: …, to: …}`, or `window` for a block that is bought already",
        ),
        (Some(start), Some(_)) => {
            refuse(
                "a block with a window is bought already: it does not start another time".into(),
                start.at,
                "remove `startBetween`",
            );
        }
        (Some(start), None) if start.from > start.to => {
            refuse(format!("{} is after {}", start.from, start.to), start.at, "write the earlier date in `from`");
        }
        (None, Some(window)) if window.from >= window.to => {
            refuse("the window ends before it begins".into(), window.at, "write the earlier instant in `from`");
        }
        (None, Some(window)) if reservation.id.is_none() => {
            refuse(
                "a window without `id`: which block runs then?".into(),
                window.at,
                "add the block's `id`, or write `startBetween`",
            );
        }
        _ => {}
    }
    if let Some(approval) = &block.approval {
        let (amount, what) = match &approval.value {
            Approval::Offering(offering) => (offering.fee_usd, "the offering costs"),
            Approval::Mandate(mandate) => (mandate.up_to_usd, "the mandate goes up to"),
        };
        if amount > block.max_upfront.value {
            let said =
                Diagnostic::error(codes::BLOCK_TERMS, format!("{what} ${amount}, more than `maxUpfrontUsd` allows"));
            let said = said.at(approval.at, "").at(block.max_upfront.at, "at most this");
            p.blame(Kind::Reservation, name, said.hint("approve less, or raise `maxUpfrontUsd`"));
        }
    }
}

fn is_sold(duration: Duration) -> bool {
    let days = duration.as_secs() / 86_400;
    duration.as_secs().is_multiple_of(86_400)
        && ((1..=14).contains(&days) || (days <= 182 && days > 0 && days.is_multiple_of(7)))
}
