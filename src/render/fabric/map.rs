//! The map: every domain a box, every host a cell, as SVG and as a page.
//!
//! A cell tells its pool by a letter and what is the matter with it by a mark, so that it reads without colour too. The
//! style follows the reader's light or dark setting. A cell's name and state are its tooltip.

use std::fmt::Write;

use super::json::position;
use super::{Shown, human};
use crate::plan::placing::{Position, Spot};

/// Cells are so large, and so far apart.
const CELL: u32 = 16;
const STEP: u32 = 18;
/// Around what is in a box, and above it for its name.
const PAD: u32 = 6;
const NAME: u32 = 14;
/// A row of boxes is not wider: eight leaves of sixteen are one row.
const WIDE: u32 = 1_300;
/// Cells in a row of one leaf, at most.
const COLUMNS: u32 = 8;
/// How wide one letter of a name is, about.
const LETTER: u32 = 6;

const STYLE: &str = "\
svg{font:10px system-ui,sans-serif;--ink:#1b1f24;--line:#8b949e;--paper:#fff;--box:#f3f5f7;--light:76%;background:var(--paper)}\
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--line:#6e7681;--paper:#0d1117;--box:#161b22;--light:27%}}\
.to{fill:hsl(var(--hue) 55% var(--light))}text{fill:var(--ink)}.box{fill:var(--box);stroke:var(--line);stroke-width:.5}\
.cell{fill:var(--paper);stroke:var(--line)}.pool{fill:hsl(var(--hue) 55% var(--light));stroke:var(--ink)}\
.unused{stroke-dasharray:2 2}.foreign{fill:var(--line);opacity:.5}.bad{stroke:var(--ink);stroke-width:2}\
.mark{font-size:9px;text-anchor:middle;font-weight:600}.some{font-size:8px}.small{font-size:6.5px}.tiny{font-size:4.5px}\
.goes{stroke-width:2}";

/// Something drawn from its own corner.
struct Drawn {
    svg: String,
    width: u32,
    height: u32,
}

/// The map alone.
pub fn svg(shown: &Shown<'_>) -> String {
    let drawn = fabric(shown);
    let legend = legend(shown, drawn.width);
    let (width, height) = (drawn.width.max(legend.width), drawn.height + legend.height + PAD);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"The fabric of {fleet}\" \
         viewBox=\"-1 -1 {wide} {tall}\" width=\"{wide}\" height=\"{tall}\"><style>{STYLE}</style>{}\
         <g transform=\"translate(0 {})\">{}</g></svg>\n",
        legend.svg,
        legend.height + PAD,
        drawn.svg,
        // Room for half a line on every side.
        wide = width + 2,
        tall = height + 2,
        fleet = escape(shown.fleet),
    )
}

/// A page with the map and the words.
pub fn html(shown: &Shown<'_>) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><title>The fabric of \
         {fleet}</title><style>body{{font:14px system-ui,sans-serif;margin:1.5em;background:Canvas;color:CanvasText}}\
         svg{{max-width:100%;height:auto}}pre{{overflow-x:auto}}</style><h1>The fabric of {fleet}</h1>\n{map}<pre>{words}\
         </pre></html>\n",
        fleet = escape(shown.fleet),
        map = svg(shown),
        words = escape(&human(shown)),
    )
}

fn fabric(shown: &Shown<'_>) -> Drawn {
    let top = (0..shown.site.tree.domains[0].len()).map(|domain| boxed(shown, 0, domain, String::new()));
    flow(top.collect())
}

/// A domain with what is below it. One that has a single domain below is drawn as that one, with both names.
fn boxed(shown: &Shown<'_>, level: usize, domain: usize, above: String) -> Drawn {
    let tree = &shown.site.tree;
    let known = &tree.domains[level][domain];
    let name = if above.is_empty() { known.name.clone() } else { format!("{above} / {}", known.name) };
    let children = known.children.start as usize..known.children.end as usize;
    if children.len() == 1 {
        return boxed(shown, level + 1, children.start, name);
    }
    let inner = if level + 1 == tree.depth() {
        cells(shown, known.hosts.start as usize..known.hosts.end as usize)
    } else {
        flow(children.map(|child| boxed(shown, level + 1, child, String::new())).collect())
    };
    let label = u32::try_from(name.chars().count()).unwrap_or(0) * LETTER;
    // A long name is cut on the map, and whole in its tooltip.
    let width = inner.width.max(label.min(COLUMNS * STEP)) + 2 * PAD;
    let height = inner.height + NAME + 2 * PAD;
    let letters = ((width - 2 * PAD) / LETTER).max(3) as usize;
    // The end of it is what tells it from its neighbours.
    let cut = name.chars().count().saturating_sub(letters);
    let short: String =
        if cut > 0 { ['…'].into_iter().chain(name.chars().skip(cut + 1)).collect() } else { name.clone() };
    let svg = format!(
        "<rect class=\"box\" width=\"{width}\" height=\"{height}\" rx=\"3\"/><text x=\"{PAD}\" y=\"{y}\">{short}<title>\
         {level} {name}</title></text><g transform=\"translate({PAD} {top})\">{inner}</g>",
        y = NAME,
        short = escape(&short),
        level = escape(tree.levels[level].as_str()),
        name = escape(&name),
        top = NAME + PAD,
        inner = inner.svg,
    );
    Drawn { svg, width, height }
}

fn cells(shown: &Shown<'_>, hosts: std::ops::Range<usize>) -> Drawn {
    let mut svg = String::new();
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    // Rows of one length: ten are five and five, and not eight and two.
    let columns = count.div_ceil(count.div_ceil(COLUMNS).max(1)).max(1);
    for (at, host) in hosts.enumerate() {
        let at = u32::try_from(at).unwrap_or(0);
        let (x, y) = (at % columns * STEP, at / columns * STEP);
        let spot = &shown.site.spots[host];
        let title = title(shown, host, spot);
        write!(svg, "<g transform=\"translate({x} {y})\"><title>{title}</title>{}</g>", cell(spot, shown.goes(host)))
            .expect("a text takes everything");
    }
    Drawn { svg, width: count.min(columns) * STEP, height: count.div_ceil(columns) * STEP }
}

/// One host; where it goes to somebody else, with both letters: `A→B`, `→B` from nobody, `A→` to nobody. The right half has
/// the colour of who gets it.
fn cell(spot: &Spot, goes: Option<Option<u32>>) -> String {
    let mut class = match (spot.standing, spot.pool) {
        (Position::Unused, _) => "cell unused".into(),
        (Position::Foreign, _) => "cell foreign".into(),
        (Position::Serving, Some(_)) => "cell pool".to_string(),
        (_, Some(_)) => "cell pool bad".into(),
        (Position::Cordoned | Position::Draining | Position::Sick, None) => "cell bad".into(),
        _ => "cell".into(),
    };
    let hue = spot.pool.map(|pool| format!(" style=\"--hue:{}\"", hue(pool))).unwrap_or_default();
    let mut mark = spot.pool.map(letter).unwrap_or_default();
    match goes {
        Some(to) => {
            class.push_str(" goes");
            mark = format!("{mark}→{}", to.map(letter).unwrap_or_default());
        }
        None => mark.push_str(sign(spot.standing)),
    }
    // The more letters and signs, the smaller they have to be to stay in their cell.
    let small = match mark.chars().count() {
        0..=1 => "",
        2 => " some",
        3 => " small",
        _ => " tiny",
    };
    let half = |to| {
        format!("<rect class=\"to\" style=\"--hue:{}\" x=\"8\" y=\"1\" width=\"7\" height=\"14\"/>", self::hue(to))
    };
    let half = goes.flatten().map(half).unwrap_or_default();
    let text = match mark.is_empty() {
        true => String::new(),
        false => format!("<text class=\"mark{small}\" x=\"8\" y=\"11.5\">{mark}</text>"),
    };
    format!("<rect class=\"{class}\"{hue} width=\"{CELL}\" height=\"{CELL}\" rx=\"2\"/>{half}{text}")
}

/// What is the matter, in one sign.
fn sign(standing: Position) -> &'static str {
    match standing {
        Position::Serving | Position::Free | Position::Foreign | Position::Offered => "",
        Position::Cordoned => "/",
        Position::Draining => "↓",
        Position::Sick => "×",
        Position::Unused => "·",
    }
}

fn title(shown: &Shown<'_>, host: usize, spot: &Spot) -> String {
    let site = shown.site;
    let mut words = format!("{}: {}", site.tree.hosts[host], position(spot.standing));
    if let Some(pool) = spot.pool {
        write!(words, ", pool {}", site.pools[pool as usize]).expect("a text takes everything");
    }
    if let Some(to) = shown.goes(host) {
        write!(words, ", goes to {}", shown.pool(to)).expect("a text takes everything");
    }
    if spot.gpus > 0 {
        write!(words, ", {} of {} GPUs free", spot.free, spot.gpus).expect("a text takes everything");
    }
    escape(&words)
}

fn legend(shown: &Shown<'_>, width: u32) -> Drawn {
    let mut entries: Vec<(Spot, Option<Option<u32>>, String)> = Vec::new();
    let spot = |pool: Option<u32>, standing: Position| Spot {
        pool,
        standing,
        launched: false,
        gpus: 0,
        free: 0,
        work: Vec::new(),
        pods: Vec::new(),
    };
    for (at, name) in shown.site.pools.iter().enumerate() {
        let pool = u32::try_from(at).unwrap_or(u32::MAX);
        entries.push((spot(Some(pool), Position::Serving), None, name.to_string()));
    }
    for standing in
        [Position::Free, Position::Cordoned, Position::Draining, Position::Sick, Position::Unused, Position::Foreign]
    {
        entries.push((spot(None, standing), None, position(standing).to_string()));
    }
    if let Some((host, to)) = (0..shown.site.spots.len()).find_map(|host| Some((host, shown.goes(host)?))) {
        entries.push((spot(shown.site.spots[host].pool, Position::Serving), Some(to), "goes to another pool".into()));
    }
    let drawn = entries.into_iter().map(|(spot, goes, name)| {
        let wide = u32::try_from(name.chars().count()).unwrap_or(0) * LETTER + STEP + 14;
        let svg = format!("{}<text x=\"{}\" y=\"12\">{}</text>", cell(&spot, goes), STEP + 2, escape(&name));
        Drawn { svg, width: wide, height: STEP }
    });
    flow_in(drawn.collect(), width.max(WIDE / 2))
}

fn flow(parts: Vec<Drawn>) -> Drawn {
    flow_in(parts, WIDE)
}

/// Side by side, and in the next row where there is no more room.
fn flow_in(parts: Vec<Drawn>, wide: u32) -> Drawn {
    let mut svg = String::new();
    let (mut x, mut y, mut tall, mut width) = (0, 0, 0, 0);
    for part in parts {
        if x > 0 && x + part.width > wide {
            (x, y, tall) = (0, y + tall + PAD, 0);
        }
        write!(svg, "<g transform=\"translate({x} {y})\">{}</g>", part.svg).expect("a text takes everything");
        width = width.max(x + part.width);
        x += part.width + PAD;
        tall = tall.max(part.height);
    }
    Drawn { svg, width, height: y + tall }
}

/// A, B … Z, then AA, AB …
fn letter(pool: u32) -> String {
    let own = char::from_u32('A' as u32 + pool % 26).unwrap_or('?');
    if pool < 26 { own.to_string() } else { format!("{}{own}", letter(pool / 26 - 1)) }
}

/// Hues that are far apart, one after the other.
fn hue(pool: u32) -> u32 {
    (pool * 137 + 210) % 360
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
