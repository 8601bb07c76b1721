//! Time passes with an operator at work: what it does, a line each.

use jiff::{SignedDuration, Timestamp};

use crate::apply::{self, Patience, StopSignal};
use crate::cli::session::{Session, block_on, judged};
use crate::cli::{fail, print};
use crate::plan::Upcoming;
use crate::render::plan::{Shown, diary};
use crate::round::Options;
use crate::units::Duration;

/// How often an operator looks.
const EVERY: SignedDuration = SignedDuration::from_mins(5);
/// It looks again before a wait is over.
const PER_WAIT: Duration = Duration::minutes(4);

/// Advances to an instant, round by round. What waits for an approval stays undone.
pub fn keep(session: &Session, until: Timestamp) -> Result<(), u8> {
    let zone = session.fleet.time_zone.zone();
    let write = |at: Timestamp, line: &str| print(&format!("{}  {line}", zone.to_datetime(at).strftime("%a %H:%M")));
    let stop = StopSignal::default();
    let patience = Patience { per_wait: PER_WAIT, total: None, poll: Duration::secs(5), concurrency: 8, stop: &stop };
    let (mut coming, mut written): (Vec<Upcoming>, Vec<String>) = (Vec::new(), Vec::new());
    loop {
        let input = session.input(&Options::default())?;
        let (made, audited) = judged(&input)?;
        for turn in coming.iter().filter(|turn| turn.at <= input.now) {
            write(turn.at, &format!("{}: {}", turn.what, turn.change));
        }
        let lines = diary(&Shown { input: &input, plan: &made, directory: &session.directory, is_now: true });
        // What takes several rounds is told when it begins.
        for line in lines.iter().filter(|line| !written.contains(line)) {
            write(input.now, line);
        }
        (coming, written) = (made.upcoming.clone(), lines);
        let mut quietly = |_| {};
        let walked = apply::apply(&audited, &input, None, session.world(), &patience, &mut quietly);
        block_on(walked).map_err(|error| fail(&error.to_string()))?;
        let now = session.now();
        if now >= until {
            return Ok(());
        }
        session.sim()?.advance_to(until.min(now.checked_add(EVERY).unwrap_or(until)));
    }
}
