//! What a node's condition says: its status, and what its words mean to a health policy.
//!
//! Those who watch GPUs write the codes, the driver's verdict and measured slowness into a condition's message or reason,
//! each in words of its own. Here they become values; texts are not kept. Both clusters make their conditions by
//! [`ConditionSeen::said`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::policy::ConditionStatus;
use crate::units::Ratio;

/// The condition in which a kubelet says that its node takes pods; where it says nothing, its status is unknown.
pub const READY: &str = "Ready";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConditionSeen {
    pub status: ConditionStatus,
    pub since: Timestamp,
    /// Xid codes, where the condition names some.
    pub xids: Vec<u32>,
    /// What is to be done about it, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How far behind the others it is, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
}

/// What the driver, or whoever watches it, says is to be done. Later is worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The GPU goes on as it is.
    Nothing,
    /// A reset brings it back, and a boot is one.
    Boot,
    /// No boot helps: it is to be replaced, or looked at.
    Replace,
}

/// Steps that take so many times as long as the median, in so many windows in a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slow {
    pub ratio: Ratio,
    pub windows: u32,
}

impl ConditionSeen {
    /// One that says nothing but its status.
    pub fn new(status: ConditionStatus, since: Timestamp) -> Self {
        Self { status, since, xids: Vec::new(), verdict: None, slow: None }
    }

    /// One with what its reason and message mean.
    pub fn said(kind: &str, status: ConditionStatus, since: Timestamp, reason: &str, message: &str) -> Self {
        // Most conditions of most nodes say nothing of the kind, and a large cluster has many.
        if !may_mean_something(reason, message) {
            return Self::new(status, since);
        }
        // Bytes keep their places: no letter outside ASCII changes its length.
        let (kind, reason, message) =
            (kind.to_ascii_lowercase(), reason.to_ascii_lowercase(), message.to_ascii_lowercase());
        let mut xids = codes(&kind, &message);
        xids.extend(codes("", &reason));
        Self {
            status,
            since,
            xids: xids.into_iter().collect(),
            verdict: driver(&message).into_iter().chain(recommended(&message)).max(),
            slow: slow(&message),
        }
    }
}

/// Codes, verdicts and measures all have a number in them, but for what somebody recommends.
fn may_mean_something(reason: &str, message: &str) -> bool {
    let has_number = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    has_number(reason) || has_number(message) || names_an_action(message)
}

fn names_an_action(message: &str) -> bool {
    let word = RECOMMENDED.as_bytes();
    message.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// Whether a condition of this type complains. Those that end in `Ready`, `Healthy` or `Acceptance` say that all is well,
/// others name what is wrong.
pub fn complains(kind: &str, status: ConditionStatus) -> bool {
    let says_well = ["Ready", "Healthy", "Acceptance"].iter().any(|end| kind.ends_with(end));
    status == if says_well { ConditionStatus::False } else { ConditionStatus::True }
}

/// The Xid codes in a text: `NVRM: Xid (PCI:0000:3b:00): 79, …`, `XID error 48`, `NvidiaXID79Error`, and in a condition
/// about Xids also `ErrorCode:79`.
fn codes(kind: &str, text: &str) -> BTreeSet<u32> {
    let words = if kind.contains("xid") { &["xid", "errorcode"][..] } else { &["xid"][..] };
    let after = |word: &&str| {
        let word = word.len();
        move |(at, _): (usize, &str)| number_after(&text[at + word..])
    };
    words.iter().flat_map(|word| text.match_indices(word).filter_map(after(word)).collect::<Vec<_>>()).collect()
}

/// A number that follows at once, behind signs, a few words and what stands in brackets.
fn number_after(text: &str) -> Option<u32> {
    let text = text.trim_start_matches([' ', ':', '=', '#', '-']);
    let text = match text.strip_prefix('(') {
        Some(inside) => inside.split_once(')')?.1,
        None => text,
    };
    let words = ["error", "errors", "code", "codes", "event", ":", "=", "#", " "];
    let mut rest = text;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    digits(rest).parse().ok()
}

/// Xid 154 is the driver's own verdict: `Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2
/// (Node Reboot Required)`. The last word on each GPU counts, and of several GPUs the worst. The numbers are NVML's; the
/// words beside them differ between drivers.
fn driver(message: &str) -> Option<Verdict> {
    const CHANGED: &str = "recovery action changed from ";
    let mut gpus: BTreeMap<&str, Verdict> = BTreeMap::new();
    for (at, _) in message.match_indices(CHANGED) {
        let (before, after) = (&message[..at], &message[at + CHANGED.len()..]);
        let gpu = before.rsplit_once("(pci:").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(gpu, _)| gpu);
        let to = after.split_once(" to 0x").map_or("", |(_, to)| digits(to));
        let verdict = match to {
            "0" => Verdict::Nothing,
            // Reset, reboot, drain of peers, drain and reset.
            "1" | "2" | "3" | "4" => Verdict::Boot,
            _ => continue,
        };
        gpus.insert(gpu, verdict);
    }
    gpus.into_values().max()
}

/// The word behind which a monitor says what to do, in small letters.
const RECOMMENDED: &str = "recommendedaction";

/// What NVSentinel recommends: `RecommendedAction: COMPONENT_RESET`.
fn recommended(message: &str) -> Option<Verdict> {
    let said = message.match_indices(RECOMMENDED).filter_map(|(at, word)| {
        let rest = message[at + word.len()..].trim_start_matches([':', '=', ' ']);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        match &rest[..end] {
            "none" => Some(Verdict::Nothing),
            "component_reset" | "reset" | "reboot" | "restart_vm" | "restart_bm" => Some(Verdict::Boot),
            "replace_vm" | "contact_support" | "run_fielddiag" | "run_dcgmeud" => Some(Verdict::Replace),
            _ => None,
        }
    });
    said.max()
}

/// `ratio=1.41 windows=4`.
fn slow(message: &str) -> Option<Slow> {
    let value = |name: &str| {
        let rest = message.split_once(name)?.1.trim_start_matches([':', '=', ' ']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches('.'))
    };
    Some(Slow { ratio: value("ratio")?.parse().ok()?, windows: value("windows")?.parse().ok()? })
}

fn digits(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: &str, reason: &str, message: &str) -> ConditionSeen {
        ConditionSeen::said(kind, ConditionStatus::True, Timestamp::UNIX_EPOCH, reason, message)
    }

    #[test]
    fn xids_are_found_in_the_words_of_those_who_report_them() {
        let of = |text: &str| said("SysLogsXIDError", "", text).xids;
        assert_eq!(of("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus"), [79]);
        assert_eq!(of("ErrorCode:48 PCI:0000:3b:00 XID error occurred RecommendedAction: RESET"), [48]);
        assert_eq!(of("xid=94; then Xid 95"), [94, 95]);
        assert_eq!(of("no errors on GPU 3"), [0; 0]);
        assert_eq!(said("KernelDeadlock", "", "ErrorCode:48").xids, [0; 0]);
        assert_eq!(said("AcceleratedHardwareReady", "NvidiaXID79Error", "GPU 3 is not usable").xids, [79]);
    }

    #[test]
    fn the_drivers_last_word_on_each_gpu_is_its_verdict() {
        let of = |text: &str| said("SysLogsXIDError", "", text).verdict;
        let line = |gpu: &str, to: &str| {
            format!("NVRM: Xid (PCI:0000:{gpu}:00): 154, GPU recovery action changed from 0x0 (None) to {to}\n")
        };
        assert_eq!(of(&line("3b", "0x2 (Node Reboot Required)")), Some(Verdict::Boot));
        assert_eq!(of(&line("3b", "0x2 (OS Reboot)")), Some(Verdict::Boot), "another driver's words");
        let over = line("3b", "0x1 (GPU Reset Required)") + &line("3b", "0x0 (None)");
        assert_eq!(of(&over), Some(Verdict::Nothing));
        assert_eq!(of(&(over + &line("86", "0x4 (Drain and Reset)"))), Some(Verdict::Boot), "the other GPU");
        assert_eq!(of("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus"), None);
        assert_eq!(of(&line("3b", "0x9 (Something New)")), None, "nobody knows what that is");
    }

    #[test]
    fn what_a_monitor_recommends_is_a_verdict_too() {
        let of = |text: &str| said("GpuMemWatch", "", text).verdict;
        assert_eq!(of("ErrorCode:48 RecommendedAction: COMPONENT_RESET"), Some(Verdict::Boot));
        assert_eq!(of("RecommendedAction=NONE;"), Some(Verdict::Nothing));
        assert_eq!(
            of("GPU 1 RecommendedAction: NONE; GPU 2 RecommendedAction: CONTACT_SUPPORT"),
            Some(Verdict::Replace)
        );
        assert_eq!(of("RecommendedAction: UNKNOWN"), None);
        assert_eq!(of("recommendedACTION reboot"), Some(Verdict::Boot));
    }

    #[test]
    fn slowness_is_a_ratio_over_windows() {
        let slow = said("Straggling", "", "rank 6: ratio=1.41 windows=4.").slow;
        assert_eq!(slow, Some(Slow { ratio: "1.41".parse().expect("a ratio"), windows: 4 }));
        assert_eq!(said("Straggling", "", "slow").slow, None);
    }

    #[test]
    fn a_condition_complains_by_what_it_is_called() {
        use ConditionStatus::{False, True, Unknown};
        assert!(complains("SysLogsXIDError", True) && !complains("SysLogsXIDError", False));
        assert!(complains("AcceleratedHardwareReady", False) && !complains("AcceleratedHardwareReady", True));
        assert!(!complains("SysLogsXIDError", Unknown) && !complains("AcceleratedHardwareReady", Unknown));
    }
}
