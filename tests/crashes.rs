//! Every effect of some stories, crashed before it is sent, after it is done, and after it is answered: whoever comes
//! next finishes the work with as many machines launched, ended, booted and paid for as without a crash.
//!
//! A story is a script in `tests/crashes/`. The crash is ordered at the line `# The crashes begin.`; what stands after
//! `# In the end.` must hold once the fleet has settled. What may come out otherwise, and why, stands after
//! `# Declared:`.
//!
//! `CRASHES=all cargo test --profile campaign --test suite crashes -- --include-ignored --nocapture` crashes everything.
//! Without it a few stories crash once, because a debug build takes its time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidewright::scenario;

const BEGIN: &str = "# The crashes begin.\n";
const END: &str = "# In the end.\n";
const DECLARED: &str = "# Declared: ";
/// As a script says it, and as the simulator counts it.
const POSITIONS: [(&str, &str); 3] =
    [("before", "crash before send"), ("after", "crash after commit"), ("at-answer", "crash after answer")];
/// What the account can tell afterwards: machines and money. What is written to the cluster may be written twice.
const COUNTED: [&str; 8] = ["launch", "terminate", "reboot", "reserve", "modify", "cancel", "purchase", "extend"];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashes")
}

/// How often each was done, and which crashes came.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    done: BTreeMap<&'static str, u64>,
    crashed: BTreeSet<&'static str>,
}

/// A script in its parts.
struct Story<'a> {
    name: &'a str,
    before: &'a str,
    during: &'a str,
    end: &'a str,
    declared: Option<&'a str>,
}

impl<'a> Story<'a> {
    fn read(name: &'a str, text: &'a str) -> Self {
        let (before, rest) = text.split_once(BEGIN).expect("a story says where the crashes begin");
        let (during, end) = rest.split_once(END).expect("a story says what holds in the end");
        let (end, declared) = match end.split_once(DECLARED) {
            Some((end, declared)) => (end, Some(declared.split_once('\n').expect("a line of its own").1)),
            None => (end, None),
        };
        Self { name, before, during, end, declared }
    }

    /// To its end, with a fault that is ordered where the crashes begin.
    fn run(&self, fault: &str, end: &str) -> Result<Outcome, String> {
        let Self { before, during, .. } = self;
        let settled = "show faults\ncalm\nsettle\nexpect no orphans\nexpect no violations\n";
        let text = format!("{before}{fault}{during}{settled}{end}show\n");
        let done = scenario::run(&text, &directory()).map_err(|error| error.to_string())?;
        let count = |verb: &&'static str| {
            let number = |line: &str| line.strip_prefix("|   ")?.strip_prefix(verb)?.strip_prefix(' ')?.parse().ok();
            (*verb, done.text.lines().find_map(number).unwrap_or(0))
        };
        let struck = |(_, name): &(&str, &'static str)| done.text.contains(&format!("\n| {name}: ")).then_some(*name);
        Ok(Outcome {
            done: COUNTED.iter().map(count).collect(),
            crashed: POSITIONS.iter().filter_map(struck).collect(),
        })
    }

    /// Crashes the n-th effect; false where there are not so many.
    fn crash(&self, clean: &Outcome, (word, counted): (&str, &str), effect: usize) -> bool {
        let fault = format!("crash {word} effect {effect}\n");
        let outcome = self.run(&fault, self.end).inspect(|outcome| {
            assert_eq!(outcome.done, clean.done, "{}, {fault}", self.name);
        });
        let outcome = match (outcome, self.declared) {
            (Err(_), Some(declared)) => self.run(&fault, declared),
            (outcome, _) => outcome,
        };
        outcome.unwrap_or_else(|error| panic!("{}, {fault}{error}", self.name)).crashed.contains(counted)
    }
}

fn check(name: &str) {
    let text = std::fs::read_to_string(directory().join(format!("{name}.tw"))).unwrap();
    let story = Story::read(name, &text);
    let clean = story.run("", story.end).unwrap_or_else(|error| panic!("{name}, {error}"));
    assert_eq!(clean.crashed, BTreeSet::new(), "{name}: something is crashed before the crashes begin");
    if std::env::var("CRASHES").as_deref() != Ok("all") {
        let place = ALL.iter().position(|known| *known == name).unwrap();
        let position = POSITIONS[place % 3];
        assert!(story.crash(&clean, position, 1 + place / 3 % 3), "{name}: nothing is crashed");
        return;
    }
    let effects = POSITIONS.map(|position| (1..).take_while(|n| story.crash(&clean, position, *n)).count());
    println!(
        "{name}: {} effects crashed before they are sent, {} done, {} answered",
        effects[0], effects[1], effects[2]
    );
    assert!(effects[0] > 0 && effects == [effects[0]; 3], "{name}: an effect was left out: {effects:?}");
}

/// A story's name is the name of its file, and no sentence.
macro_rules! stories {
    (few { $($few:ident)* } rest { $($rest:ident)* }) => {
        $(#[core::prelude::v1::test] fn $few() { check(stringify!($few)); })*
        $(#[core::prelude::v1::test] #[ignore = "for the campaign profile"] fn $rest() { check(stringify!($rest)); })*
        const ALL: &[&str] = &[$(stringify!($few),)* $(stringify!($rest)),*];
    };
}

stories! {
    few {
        block_bought
        booted
        cut
        filled
        released
        renamed
        renamed_and_grown
        replaced_under_a_gang
        reserved
    }
    rest {
        block_drained
        booted_then_replaced
        budgeted
        canary
        canary_beside_a_quarantine
        claimed
        cut_back
        cut_fails
        died
        drifted
        fallen_back
        forgotten
        grown
        lent_and_updated
        machines_change_places
        machines_with_work_change_places
        maintained
        moved_between_pools
        never_joined
        places_changed
        quarantined
        quota_edited
        replaced
        replaced_in_a_full_reservation
        replaced_when_idle
        reserved_less
        reserved_more
        shrunk
        shrunk_under_a_gang
        spot_interrupted
        thawed
        tide_lends
        tide_recalled
        tide_reclaims
    }
}

#[test]
fn every_story_is_crashed() {
    let files = std::fs::read_dir(directory()).unwrap().map(|file| file.unwrap().path());
    let found = files.filter(|path| path.extension().is_some_and(|kind| kind == "tw"));
    let found: BTreeSet<String> = found.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
    assert_eq!(found, ALL.iter().map(ToString::to_string).collect());
    assert!(ALL.len() >= 25);
}
