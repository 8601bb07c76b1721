//! The codes of all rules. A code is stable: it is never given to another rule, and tools may match on it.
//!
//! The story of each, with a wrong and a right example, is in `codes.md` beside this file; tests hold that every
//! code has one, and that the wrong example really gives the code and the right one nothing.

use std::fmt;

use serde::{Serialize, Serializer};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Code(&'static str);

macro_rules! codes {
    ($($name:ident = $id:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code($id);)*
        /// Every code with its title, in order.
        pub const ALL: &[(Code, &str)] = &[$((Code($id), $title)),*];
    };
}

codes! {
    // Files and YAML.
    NOTHING_TO_READ = "TW001", "nothing to read";
    NOT_TEXT = "TW002", "not UTF-8 text";
    TOO_LARGE = "TW003", "larger than the limits";
    SYNTAX = "TW004", "not YAML";
    ANCHOR = "TW005", "anchors, aliases and tags are not part of the language";
    DUPLICATE_KEY = "TW006", "the same key twice";
    OTHER_READERS = "TW007", "other YAML readers take this word for something else";
    EMPTY_FILE = "TW008", "a file with no document in it";
    INCLUDE = "TW009", "an include that cannot be followed";
    FILE_REFERENCE = "TW010", "a file that cannot be read";
    // The shape of one document.
    API_VERSION = "TW101", "not a version that this program reads";
    KIND = "TW102", "unknown kind";
    UNKNOWN_FIELD = "TW103", "unknown field";
    MISSING_FIELD = "TW104", "missing field";
    WRONG_TYPE = "TW105", "a value of the wrong type";
    NOT_A_CHOICE = "TW106", "not one of the words that are allowed";
    MALFORMED = "TW107", "a value that is written wrongly";
    OUT_OF_RANGE = "TW108", "out of range";
    EXACTLY_ONE = "TW109", "exactly one of several fields";
    EMPTY_VALUE = "TW110", "a field without a value";
    AMBIGUOUS_NUMBER = "TW111", "a number that YAML readers do not agree on";
    // Names and references.
    DUPLICATE_NAME = "TW201", "two objects of one kind with the same name";
    ONE_FLEET = "TW202", "a fleet's directory holds exactly one Fleet";
    UNKNOWN_REFERENCE = "TW203", "a name that nothing has";
    RENAMED_FROM = "TW204", "a rename that cannot be followed";
    NAME_COLLISION = "TW205", "two objects that would become the same thing";
    RESERVED_NAME = "TW206", "a name that is taken";
    LISTED_TWICE = "TW207", "the same thing listed twice";
    // Hardware and layouts.
    UNKNOWN_HARDWARE = "TW301", "hardware that nothing describes";
    UNKNOWN_SLICE = "TW302", "a slice that this GPU does not have";
    SLICES_DO_NOT_FIT = "TW303", "slices that do not fit on the GPU together";
    GPU_INDEX = "TW304", "a GPU that the node does not have";
    CANNOT_SHARE = "TW305", "a way of sharing that this GPU does not have";
    KEEP_READY = "TW306", "more slices kept ready than can stay up";
    HARDWARE_OVERRIDE = "TW307", "an override that does not fit the catalogue";
    NO_PRICE = "TW308", "a price that nobody knows";
    FABRIC = "TW309", "a fabric that does not describe its nodes";
    // Capacity.
    RESERVATION_TOO_SMALL = "TW401", "a reservation smaller than the pools that name it";
    POOL_WITHOUT_ROOM = "TW402", "a pool larger than its capacity";
    OTHER_INSTANCE_TYPE = "TW403", "a reservation of another instance type";
    OTHER_ZONE = "TW404", "a reservation in another zone";
    OPEN_RESERVATION_UNUSED = "TW405", "an open reservation that the pool opts out of";
    SPARES = "TW406", "as many spares as nodes";
    CAPACITY_WITHOUT_CLOUD = "TW407", "capacity that this fleet's cloud does not have";
    BLOCK_TERMS = "TW408", "a Capacity Block that cannot be bought like this";
    BLOCK_ENDS_INSIDE = "TW409", "a Capacity Block that ends while its pool is promised";
    HOURLY_LIMIT = "TW410", "over the hourly limit";
    FILL = "TW411", "nothing to fill from";
    GIVEN_BACK = "TW412", "given back or retired while something still names it";
    NOTICE_TOO_SHORT = "TW413", "a checkpoint longer than the notice its capacity gives";
    LAUNCH = "TW414", "nodes that could not be launched or could not join";
    UPDATE_BUDGET = "TW415", "an update that can never move";
    // Quotas and tiers.
    OVER_CAPACITY = "TW501", "guarantees that add up to more than the pool holds";
    LENDS_TOO_MUCH = "TW502", "more lent than guaranteed";
    NO_COHORT = "TW503", "borrowing and lending need a cohort";
    NOBODY_LENDS = "TW504", "more borrowed than anybody lends";
    NOT_IN_POOL = "TW505", "a share of something that the pool does not have";
    SAME_RANK = "TW506", "two tiers of one rank";
    RUNTIME_NOT_KEPT = "TW507", "a minimum runtime that is not always kept";
    TOTAL_NOT_KEPT = "TW508", "a total that is no number of GPUs";
    TOTAL_BELOW_GUARANTEE = "TW509", "a total below what is guaranteed";
    COHORT_TREE = "TW510", "a cohort in two places";
    HIGHER_TIER = "TW511", "a loan to work of a higher tier";
    // Tides.
    LENT_TOO_MUCH = "TW601", "more lent than the pool has";
    LEAD_TOO_SHORT = "TW602", "a reclaim that starts too late";
    TIDES_OVERLAP = "TW603", "two tides that say different things about one pool";
    CLOCK_CHANGE = "TW604", "a window's edge inside a clock change";
    SAVES_NOTHING = "TW605", "a smaller pool that costs the same";
    WINDOW_TOO_SHORT = "TW606", "a window that ends before anything can be lent";
    LENDER_WITHOUT_SHARE = "TW607", "a lender with nothing to lend";
    EXCEPTIONS_DISAGREE = "TW608", "two exceptions for one date";
    NEVER_TURNS = "TW609", "a tide that never turns";
    HARD_RECLAIM = "TW610", "a hard reclaim before the gentle one";
    // Scheduling and health.
    TWO_SCHEDULERS = "TW701", "two schedulers on one pool";
    TWO_HEALTH_POLICIES = "TW702", "two health policies on one pool";
    CANNOT_REPLACE = "TW703", "a node that cannot be replaced";
}

impl Code {
    pub fn id(self) -> &'static str {
        self.0
    }

    pub fn title(self) -> &'static str {
        ALL.iter().find(|(code, _)| *code == self).map_or("", |(_, title)| title)
    }

    /// The code with this id, in any case.
    pub fn from_id(id: &str) -> Option<Self> {
        ALL.iter().map(|(code, _)| *code).find(|code| code.0.eq_ignore_ascii_case(id))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}
