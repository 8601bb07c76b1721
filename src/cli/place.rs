//! `tidewright place`: where pools stand on the fabric and why; or where a gang would go.

use super::plan::near;
use super::session::{Access, Session};
use super::{BLOCKED, CHANGES, Common, DONE, Directory, Output, fail, json, print};
use crate::fabric::Placement;
use crate::fabric::collective::Links;
use crate::fabric::fgd::lost_of;
use crate::fabric::gang::{Answer, Gang, ask};
use crate::fabric::reasons::reasons;
use crate::fabric::search::solve;
use crate::fabric::state::settle;
use crate::ids::LevelName;
use crate::plan::PlanInput;
use crate::plan::chosen::{Drawn, drawn};
use crate::plan::links::links;
use crate::plan::placing::{Site, shapes, site};
use crate::plan::view::View;
use crate::render::fabric::{self, Shown};
use crate::round::Options;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright place                             where each pool stands, why, and what the next best place would cost
  tidewright place clusters/demo --output html > map.html
                                               the map, for a browser
  tidewright place --gpus 64 --together leaf --required
                                               where a gang of 64 GPUs would go, or what has to move for it
  tidewright place --gpus 64 --pool train      the same in one pool

Exit codes: 0 nothing is better elsewhere, or the gang fits; 1 error; 2 moves would pay; 3 the gang does not fit.")]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
    /// A gang of so many GPUs, in whole nodes unless it is smaller than one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    gpus: Option<u32>,
    /// The level of the fabric that the gang should share
    #[arg(long, value_name = "LEVEL", requires = "gpus")]
    together: Option<String>,
    /// Rather nowhere than across that level
    #[arg(long, requires = "together")]
    required: bool,
    /// Only in this pool
    #[arg(long, value_name = "NAME", requires = "gpus")]
    pool: Option<String>,
    /// Every move and every note
    #[arg(long)]
    verbose: bool,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    let known = match arguments.gpus {
        Some(_) => &[Output::Human, Output::Json][..],
        None => &[Output::Human, Output::Json, Output::Svg, Output::Html],
    };
    if let Err(code) = common.one_of("place", known) {
        return code;
    }
    show(arguments, common).unwrap_or_else(|code| code)
}

fn show(arguments: &Arguments, common: &Common) -> Result<u8, u8> {
    let session = Session::open(&arguments.directory.directory, Access::Look)?;
    let input = session.input(&Options::default())?;
    let view = View::new(&input);
    match arguments.gpus {
        Some(gpus) => gang(arguments, common, &input, &site(&view, false), gpus),
        None => Ok(pools(arguments, common, &view)),
    }
}

/// What a plan would choose, with the freedom that a plan has; of a fleet without a fabric how it is.
fn pools(arguments: &Arguments, common: &Common, view: &View<'_>) -> u8 {
    let input = view.input;
    let Drawn { site, placement, reasons } = drawn(view).unwrap_or_else(|| flat(view));
    let shown = Shown {
        fleet: input.target.standing.fleet.as_str(),
        site: &site,
        placement: &placement,
        reasons: &reasons,
        fragmented: lost_of(&site.serving_gpus(&site.now()), &shapes(input)),
        verbose: arguments.verbose,
    };
    print(&match common.output {
        Output::Json => json(&fabric::json(&shown)),
        Output::Svg => fabric::svg(&shown),
        Output::Html => fabric::html(&shown),
        _ => fabric::human(&shown),
    });
    if shown.moves().is_empty() { DONE } else { CHANGES }
}

/// A fleet that says nothing about its fabric: one domain, in which everything stays.
fn flat(view: &View<'_>) -> Drawn {
    let site = site(view, false);
    let (placement, reasons) = {
        let problem = site.problem();
        let (state, stay) = solve(&problem);
        let hosts = settle(&state);
        let reasons = reasons(&state, &site.staying(&problem, &hosts));
        (Placement { hosts, score: state.score(), stay }, reasons)
    };
    Drawn { site, placement, reasons }
}

/// The map of a plan: how it is, and what would change.
pub fn map(input: &PlanInput, output: Output) -> Result<String, u8> {
    let view = View::new(input);
    let Some(Drawn { site, placement, reasons }) = drawn(&view) else {
        return Err(fail("the fleet says nothing about its fabric: add `fabric` with its levels to the Fleet"));
    };
    let shown = Shown {
        fleet: input.target.standing.fleet.as_str(),
        site: &site,
        placement: &placement,
        reasons: &reasons,
        fragmented: lost_of(&site.serving_gpus(&site.now()), &shapes(input)),
        verbose: false,
    };
    Ok(if output == Output::Svg { fabric::svg(&shown) } else { fabric::html(&shown) })
}

fn gang(arguments: &Arguments, common: &Common, input: &PlanInput, site: &Site, gpus: u32) -> Result<u8, u8> {
    let level = arguments.together.as_ref().map(|name| {
        site.tree.level(&LevelName::from(name.as_str())).ok_or_else(|| {
            let levels: Vec<&str> = site.tree.levels.iter().map(|level| level.as_str()).collect();
            fail(&format!("the fabric has no level `{name}`: {}", near(name, "level", &levels)))
        })
    });
    let pool = arguments.pool.as_ref().map(|name| {
        site.pools.iter().position(|pool| pool.as_str() == name).ok_or_else(|| {
            let pools: Vec<&str> = site.pools.iter().map(|pool| pool.as_str()).collect();
            fail(&format!("the fleet has no pool `{name}`: {}", near(name, "pool", &pools)))
        })
    });
    let asked = Gang { gpus, together: level.transpose()?, required: arguments.required };
    let pool = pool.transpose()?.and_then(|pool| u32::try_from(pool).ok());
    let (seats, work) = site.seats(pool);
    if !seats.iter().any(|seat| seat.open) {
        return Err(fail("no node with whole GPUs is in service yet: `tidewright apply` brings them"));
    }
    let answer = ask(&site.tree, &seats, &asked, |kind| {
        let pool = site.pools.get(kind as usize).and_then(|name| input.target.standing.pools.get(name));
        pool.map_or(Links::USUAL, |pool| links(&pool.shape))
    });
    print(&match common.output {
        Output::Json => json(&fabric::gang_json(site, &asked, &answer, &work)),
        _ => fabric::gang(site, &asked, &answer, &work),
    });
    Ok(if matches!(answer, Answer::Fits(_)) { DONE } else { BLOCKED })
}
