//! What goes wrong on the wire, in order: nothing here is drawn by chance.
//!
//! An order is a line such as `cut-after RunInstances 2 after 3`: the two calls of RunInstances that come after the next
//! three. What goes wrong in the world behind the wire is the simulator's own affair.

use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;

use crate::units::Malformed;

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The connection is closed, and nothing was done.
    CutBefore,
    /// It was done, and the connection is closed before the answer.
    CutAfter,
    /// An error of the server, and nothing was done.
    Fails(StatusCode),
    /// The same, and it was done.
    FailsAfter(StatusCode),
    Slow(Duration),
    /// It was done; half of the answer comes.
    Truncated,
    /// It was done; the answer is somebody else's.
    Garbage,
    /// Whoever asks may not: nothing is done, and a dry run is told so too. Where something is named, it is what the call
    /// needs beside itself: one of [`NEEDED`].
    Denied(Option<&'static str>),
}

/// What may be missing though the action itself is allowed: a permission beside it, or things of a kind to do it with.
pub const NEEDED: [&str; 5] = ["role", "tags", "launch-template", "subnet", "capacity-reservation"];

/// An order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub kind: Kind,
    /// Of which action; none: of any.
    pub action: Option<String>,
    pub times: u32,
    /// So many calls pass before.
    pub after: u32,
}

/// All orders that are open.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn order(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub fn stop(&mut self) {
        self.0.clear();
    }

    /// What happens to a call of this action. The oldest order that is due strikes. Of one that does nothing (`dry`) only
    /// whether it is allowed is of interest.
    pub fn strike(&mut self, action: &str, dry: bool) -> Option<Kind> {
        let concerns = |fault: &&mut Fault| {
            fault.action.as_deref().is_none_or(|named| named == action)
                && (!dry || matches!(fault.kind, Kind::Denied(_)))
        };
        let mut struck = None;
        for fault in self.0.iter_mut().filter(concerns) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if struck.is_none() {
                fault.times -= 1;
                struck = Some(fault.kind);
            }
        }
        self.0.retain(|fault| fault.times > 0);
        struck
    }
}

impl FromStr for Fault {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = || {
            Malformed(format!("expected KIND [ACTION|any] [TIMES] [after CALLS], not `{text}`; KIND is one of {KINDS}"))
        };
        let mut words = text.split_whitespace();
        let kind = words.next().and_then(kind).ok_or_else(wrong)?;
        let mut fault = Self { kind, action: None, times: 1, after: 0 };
        while let Some(word) = words.next() {
            match word.parse::<u32>() {
                Ok(times) => fault.times = times.max(1),
                Err(_) if word == "after" => {
                    fault.after = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                }
                Err(_) if word == "any" => {}
                Err(_) if word.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
                    fault.action = Some(word.to_string());
                }
                Err(_) => return Err(wrong()),
            }
        }
        Ok(fault)
    }
}

/// How kinds are written.
pub const KINDS: &str = "cut-before, cut-after, 500, 503, 500-after, 503-after, slow=SECONDS, truncate, garbage, deny, \
                         deny=role|tags|launch-template|subnet|capacity-reservation";

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "cut-before" => Kind::CutBefore,
        "cut-after" => Kind::CutAfter,
        "500" => Kind::Fails(StatusCode::INTERNAL_SERVER_ERROR),
        "503" => Kind::Fails(StatusCode::SERVICE_UNAVAILABLE),
        "500-after" => Kind::FailsAfter(StatusCode::INTERNAL_SERVER_ERROR),
        "503-after" => Kind::FailsAfter(StatusCode::SERVICE_UNAVAILABLE),
        "truncate" => Kind::Truncated,
        "garbage" => Kind::Garbage,
        "deny" => Kind::Denied(None),
        _ if word.starts_with("deny=") => {
            let named = &word["deny=".len()..];
            Kind::Denied(Some(NEEDED.into_iter().find(|needed| *needed == named)?))
        }
        _ => {
            let secs: f64 = word.strip_prefix("slow=")?.parse().ok()?;
            Kind::Slow(Duration::try_from_secs_f64(secs).ok()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_waits_for_its_action_and_its_turn() {
        let mut faults = Faults::default();
        faults.order("cut-after RunInstances 2 after 1".parse().unwrap());
        let struck: Vec<bool> = ["RunInstances", "DescribeInstances", "RunInstances", "RunInstances", "RunInstances"]
            .map(|action| faults.strike(action, false).is_some())
            .to_vec();
        assert_eq!(struck, [false, false, true, true, false]);
    }

    #[test]
    fn a_call_that_does_nothing_is_only_ever_denied() {
        let mut faults = Faults::default();
        faults.order("cut-after RunInstances".parse().unwrap());
        faults.order("deny RunInstances 2".parse().unwrap());
        assert_eq!(faults.strike("RunInstances", true), Some(Kind::Denied(None)));
        assert_eq!(faults.strike("RunInstances", false), Some(Kind::CutAfter));
    }

    #[test]
    fn an_order_that_means_nothing_is_refused_with_what_can_be_written() {
        for text in ["", "cut", "cut-after runinstances", "slow=x", "500 after", "deny=x RunInstances"] {
            assert!(text.parse::<Fault>().unwrap_err().0.contains("cut-before"), "{text}");
        }
        assert_eq!("deny=role RunInstances".parse::<Fault>().unwrap().kind, Kind::Denied(Some("role")));
        assert_eq!("slow=0.5 any 3".parse::<Fault>().unwrap().kind, Kind::Slow(Duration::from_millis(500)));
    }
}
