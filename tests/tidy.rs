//! The layering of ARCHITECTURE.md, held: who may name whom, where a word may stand, how long a file may be.
//!
//! The checks read the sources as text. Each is a function from text to what is wrong with it, so that each can be
//! shown to fail.

use std::collections::BTreeSet;
use std::path::Path;

/// Beside the order of lib.rs: these never name those, wherever they stand.
const NEVER: &[(&str, &[&str])] = &[
    ("provider", &["plan", "audit", "status", "insight", "render"]),
    ("apply", &["fleet", "manifest", "compile", "queue", "insight", "render"]),
    ("audit", &["manifest", "compile"]),
];

/// What may be named only in some places.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("kube_core", &["src/manifest/schema.rs"]),
    ("kube::", &["src/provider/k8s/"]),
    ("aws_", &["src/provider/aws/"]),
    ("serde_saphyr", &["src/manifest/", "src/hardware/", "src/cli/schema.rs", "src/queue/mode.rs"]),
    ("println!", &["src/cli/", "src/scenario/tests/mistakes/campaign.rs", "src/provider/aws/tests/"]),
    ("print!", &["src/cli/"]),
    ("eprintln!", &["src/cli/"]),
    ("eprint!", &["src/cli/"]),
    ("dbg!", &[]),
    ("todo!", &[]),
    ("unimplemented!", &[]),
    // For the optimised profile: the test script runs them all.
    ("#[ignore", &["src/scenario/tests/mistakes/campaign.rs", "tests/crashes.rs"]),
];

/// Longer files are two files.
const MOST_LINES: usize = 600;
const MOST_LINES_OF_MAIN: usize = 40;

/// A file of Rust, by its path from the root of the repository.
struct Source {
    path: String,
    text: String,
}

fn sources(below: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut open = vec![root.join(below)];
    while let Some(next) = open.pop() {
        for path in std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The code of a file: comments, texts and test modules are blank, lines stay where they are.
fn code(text: &str) -> String {
    without_tests(&without_texts(text))
}

fn without_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let blank =
        |out: &mut String, skipped: &str| out.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) =
            raw_text(rest).filter(|_| !out.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        {
            length
        } else if next == '"' {
            plain_text(rest)
        } else if let Some(length) = character(rest) {
            length
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        blank(&mut out, &rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The length of `r#"…"#`, if one begins here.
fn raw_text(text: &str) -> Option<usize> {
    let marks = text.strip_prefix('r')?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let inside = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(1 + hashes + 1 + length)
}

/// The length of `"…"`.
fn plain_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `'x'` or `'\n'`; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if let Some(escape) = inside.strip_prefix('\\') {
        return escape.char_indices().skip(1).find(|(_, c)| *c == '\'').map(|(at, _)| at + 3);
    }
    let first = inside.chars().next()?;
    inside[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

/// Blanks every item behind `#[cfg(test)]`.
fn without_tests(text: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let Some(start) = text.find(MARK) else { return text.to_string() };
    let item = &text[start..];
    let (open, end) = (item.find('{'), item.find(';'));
    let length = match (open, end) {
        (Some(open), end) if end.is_none_or(|end| open < end) => {
            let mut depth = 0;
            let close = item[open..].char_indices().find(|(_, c)| {
                depth += i32::from(*c == '{') - i32::from(*c == '}');
                depth == 0
            });
            close.map_or(item.len(), |(at, _)| open + at + 1)
        }
        (_, end) => end.map_or(item.len(), |end| end + 1),
    };
    let blank: String = item[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    format!("{}{blank}{}", &text[..start], without_tests(&item[length..]))
}

/// Files that are compiled for tests only.
fn is_test(path: &str, sources: &[Source]) -> bool {
    let declared = |source: &Source| {
        let directory = source.path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
        let mut behind_mark = false;
        source.text.lines().any(|line| {
            let name =
                line.trim().trim_start_matches("pub ").strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            let hit = behind_mark
                && name.is_some_and(|name| {
                    path == format!("{directory}/{name}.rs") || path.starts_with(&format!("{directory}/{name}/"))
                });
            behind_mark = line.trim() == "#[cfg(test)]";
            hit
        })
    };
    sources.iter().any(declared)
}

/// The modules in the order of lib.rs.
fn order(lib: &str) -> Vec<String> {
    let name = |line: &str| line.trim().strip_prefix("pub mod ")?.strip_suffix(';').map(String::from);
    lib.lines().filter_map(name).collect()
}

/// The top-level module that a file belongs to, and how deep in it the file is.
fn module(path: &str) -> (String, usize) {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    (inside.split('/').next().unwrap_or_default().to_string(), inside.split('/').count())
}

/// The top-level modules that code names, by `crate::…` or by enough `super::`.
fn named(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(is_word) {
            heads(&code[at + "crate::".len()..], &mut found);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") || code[..at].ends_with(is_word) {
            continue;
        }
        let mut rest = &code[at..];
        let mut up = 0;
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, up) = (above, up + 1);
        }
        if up >= depth {
            heads(rest, &mut found);
        }
    }
    found
}

/// The first words of a path, or of every path of a group: `{a::b, c::{d, e}}` has `a` and `c`.
fn heads(path: &str, found: &mut BTreeSet<String>) {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let path = path.trim_start();
    let Some(group) = path.strip_prefix('{') else {
        found.insert(word(path));
        return;
    };
    let mut depth = 0;
    let mut start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && !c.is_whitespace() => {
                found.insert(word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
}

/// What of a file breaks the order of the modules.
fn layering(path: &str, text: &str, order: &[String]) -> Vec<String> {
    let (own, depth) = module(path);
    let place = |module: &str| order.iter().position(|known| known == module);
    let Some(mine) = place(&own) else { return vec![format!("{path}: lib.rs does not list `{own}`")] };
    let mut wrong = Vec::new();
    for other in named(&code(text), depth).into_iter().filter(|other| *other != own) {
        match place(&other) {
            None => wrong.push(format!("{path}: names `crate::{other}`, which is no module of lib.rs")),
            Some(theirs) if theirs > mine => {
                wrong.push(format!("{path}: `{own}` names `{other}`, which stands below it in lib.rs"));
            }
            Some(_) => {}
        }
        if NEVER.iter().any(|(module, those)| *module == own && those.contains(&other.as_str())) {
            wrong.push(format!("{path}: `{own}` may never name `{other}`"));
        }
    }
    wrong
}

/// What stands where it may not.
fn misplaced(path: &str, text: &str) -> Vec<String> {
    let code = without_texts(text);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands = |word: &str| code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_word));
    let allowed = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    let wrong = ONLY_IN.iter().filter(|(word, places)| stands(word) && !allowed(places));
    wrong.map(|(word, places)| format!("{path}: `{word}` may stand only in {places:?}")).collect()
}

/// Tests whose name says too little.
fn terse_tests(path: &str, text: &str) -> Vec<String> {
    let code = without_texts(text);
    let mut wrong = Vec::new();
    for (at, _) in code.match_indices("#[test]") {
        let name: Option<String> = code[at..]
            .split_once("fn ")
            .map(|(_, rest)| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        let name = name.unwrap_or_default();
        // A macro names its tests after files, whose names are read elsewhere.
        if name.is_empty() && code[at..].split_once("fn ").is_some_and(|(_, rest)| rest.starts_with('$')) {
            continue;
        }
        if name.split('_').filter(|word| !word.is_empty()).count() < 3 {
            wrong.push(format!("{path}: the name of the test `{name}` is no sentence"));
        }
    }
    wrong
}

fn long(path: &str, text: &str) -> Option<String> {
    let most = if path == "src/main.rs" { MOST_LINES_OF_MAIN } else { MOST_LINES };
    let lines = text.lines().count();
    (lines > most).then(|| format!("{path}: {lines} lines, and {most} are the most"))
}

/// Reasons are for people: who walks a plan does not ask why.
fn asks_why(path: &str, text: &str) -> bool {
    path.starts_with("src/apply/") && without_tests(&code(text)).contains("Reason")
}

fn lib(sources: &[Source]) -> &str {
    &sources.iter().find(|source| source.path == "src/lib.rs").unwrap().text
}

#[test]
fn a_module_names_only_those_above_it() {
    let sources = sources("src");
    let order = order(lib(&sources));
    assert!(order.len() >= 9, "{order:?}");
    let layered: Vec<&Source> = sources
        .iter()
        .filter(|source| {
            !["src/lib.rs", "src/main.rs"].contains(&source.path.as_str()) && !is_test(&source.path, &sources)
        })
        .collect();
    let wrong: Vec<String> = layered.iter().flat_map(|source| layering(&source.path, &source.text, &order)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The reader of paths finds what everybody knows is there.
    let manifest = layered.iter().find(|source| source.path == "src/manifest/lower.rs").unwrap();
    assert!(named(&code(&manifest.text), 2).is_superset(&["diag", "fleet", "units"].map(String::from).into()));
    assert!(is_test("src/hardware/mig/tests.rs", &sources) && !is_test("src/hardware/mig.rs", &sources));
}

#[test]
fn every_word_stands_where_it_may() {
    let mut all = sources("src");
    let src = all.len();
    all.extend(sources("tests"));
    let wrong: Vec<String> = all
        .iter()
        .enumerate()
        .flat_map(|(at, source)| {
            let everywhere =
                |line: &String| ["dbg!", "todo!", "unimplemented!", "#[ignore"].iter().any(|word| line.contains(word));
            misplaced(&source.path, &source.text).into_iter().filter(move |line| at < src || everywhere(line))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn apply_knows_no_reasons() {
    let sources = sources("src");
    let code = sources.iter().filter(|source| !is_test(&source.path, &sources));
    let wrong: Vec<&str> =
        code.filter(|source| asks_why(&source.path, &source.text)).map(|source| source.path.as_str()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(asks_why("src/apply/turn.rs", "match step.reason { Reason::Wanted => {} }"));
}

#[test]
fn every_file_is_short_and_says_what_it_is() {
    let sources = sources("src");
    let wrong: Vec<String> =
        sources.iter().filter(|s| !is_test(&s.path, &sources)).filter_map(|s| long(&s.path, &s.text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let silent = |source: &&Source| !source.text.starts_with("//! ");
    let silent: Vec<&str> = sources.iter().filter(silent).map(|source| source.path.as_str()).collect();
    assert!(silent.is_empty(), "without `//!` at their head: {silent:?}");
    let tests = self::sources("tests");
    assert!(tests.iter().all(|source| source.text.starts_with("//! ")));
}

#[test]
fn the_name_of_every_test_is_a_sentence() {
    let all = sources("src").into_iter().chain(sources("tests"));
    let wrong: Vec<String> = all.flat_map(|source| terse_tests(&source.path, &source.text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_layering_check_sees_every_way_to_name_a_module() {
    let order = ["ids", "diag", "fleet", "render", "cli"].map(String::from).to_vec();
    let says = |path: &str, text: &str| layering(path, text, &order);
    assert_eq!(
        says("src/fleet/pool.rs", "use crate::diag::At;\nuse crate::{ids::PoolName, diag::{Span, At}};"),
        [""; 0]
    );
    for text in [
        "use crate::render::human;",
        "use crate::{ids::PoolName, render::{human, json}};",
        "use crate::{\n    diag::At,\n    render,\n};",
        "fn f() { crate::render::human() }",
        "use super::super::render;",
        "use super::super::{ids, render::human};",
        "#[cfg(test)]\nmod tests { use super::*; }\nuse crate::render::human;",
        "const A: &str = r#\"\"\"#; use crate::render::human;",
        "const A: char = '\"'; use crate::render::human; const B: char = '\"';",
    ] {
        assert_eq!(says("src/fleet/pool.rs", text).len(), 1, "{text}");
    }
    for text in [
        "//! Shown by [`crate::render`].\n// use crate::render::human;\n",
        "const A: &str = \"use crate::render::human;\"; /* crate::render */",
        "#[cfg(test)]\nmod tests {\n    use crate::render::human;\n    fn f() { if true {} }\n}\nfn g() {}",
        "use super::render;\nuse crate::fleet::tide;",
        "fn f<'a>(a: &'a str) -> &'a str { a }",
    ] {
        assert_eq!(says("src/fleet/pool.rs", text), [""; 0], "{text}");
    }
    assert_eq!(says("src/new/a.rs", "").len(), 1, "a module that lib.rs does not list");
    assert_eq!(says("src/cli/a.rs", "use crate::gone::b;").len(), 1, "a module that is not there");
    // One step up from a file at the top is the crate itself.
    assert_eq!(says("src/ids.rs", "use super::diag;").len(), 1);
    let order = ["plan", "provider"].map(String::from).to_vec();
    assert_eq!(layering("src/provider/a.rs", "use crate::plan::Plan;", &order).len(), 1);
}

#[test]
fn the_other_checks_can_fail_too() {
    for (path, text) in [
        ("src/fleet/a.rs", "fn f() { println!(\"\"); }"),
        ("src/fleet/a.rs", "fn f() { std::eprint!(\"\"); }"),
        ("src/manifest/a.rs", "use kube_core::schema;"),
        ("src/render/a.rs", "use serde_saphyr::to_string;"),
        ("src/cli/a.rs", "fn f() { todo!() }"),
        ("src/cli/a.rs", "#[test]\n#[ignore]\nfn f() {}"),
        ("src/cli/a.rs", "#[ignore = \"slow\"]"),
    ] {
        assert_eq!(misplaced(path, text).len(), 1, "{text}");
    }
    assert_eq!(misplaced("src/cli/a.rs", "fn f() { println!(\"todo!\"); } // dbg!"), [""; 0]);
    assert_eq!(misplaced("src/manifest/schema.rs", "use kube_core::schema; use serde_saphyr::x;"), [""; 0]);
    assert_eq!(terse_tests("a.rs", "#[test]\nfn works() {}\n#[test]\n#[x]\nfn a_pool_works() {}").len(), 1);
    assert!(long("src/main.rs", &"\n".repeat(41)).is_some() && long("src/main.rs", &"\n".repeat(40)).is_none());
    assert!(long("src/a.rs", &"\n".repeat(601)).is_some());
}
