//! What of YAML is read, what is refused, and that no mistake causes a second report.

use std::fmt::Write;

use tidewright::load::load;
use tidewright::manifest::tree::{MAX_DEPTH, MAX_DOCUMENTS, MAX_FILE_BYTES, MAX_KEYS};

use crate::fleets::{Checked, INIT, check, check_bytes, document, head};

/// What is said about a file that stands beside the head of a fleet: `3:7 TW103`, warnings with a `?`.
fn said(text: &str) -> Vec<String> {
    said_of_bytes(text.as_bytes())
}

fn said_of_bytes(bytes: &[u8]) -> Vec<String> {
    let checked = check_bytes([("head.yaml", head().as_bytes()), ("a.yaml", bytes)]);
    checked.said().into_iter().map(|line| line.strip_prefix("a.yaml:").unwrap_or(&line).to_string()).collect()
}

fn tier(spec: &str) -> String {
    document("PreemptionTier", "t", spec)
}

/// A document of its own with one field in question.
#[derive(Clone, Copy)]
enum Of {
    Integer,
    Text,
    Number,
    Bool,
    Time,
    Date,
    LabelValue,
    LabelKey,
}

/// What is said about a value of this type, without the place: the code, with a `?` for a warning.
fn about(of: Of, value: &str) -> Vec<String> {
    let pool = |labels: &str| {
        let spec = format!(
            "\n  instanceType: p5.48xlarge\n  nodes: 1\n  capacity: [{{onDemand: {{max: 1}}}}]\n  labels:\n    {labels}"
        );
        document("NodePool", "p", &spec)
    };
    let text = match of {
        Of::Integer => document("PreemptionTier", "t", &format!("\n  rank: {value}")),
        Of::Text => {
            let quota =
                document("Quota", "q", &format!("\n  namespaces: [{{name: ns}}]\n  tiers: [t]\n  cohort: {value}"));
            format!("{quota}---\n{}", tier("{rank: 1}"))
        }
        Of::Number => {
            let spec = format!(
                "\n  timeZone: UTC\n  cloud: {{sim: {{}}}}\n  kubernetes: {{sim: {{}}}}\n  limits:\n    hourlyUsd: \
                    {value}"
            );
            return codes(&check(&[("a.yaml", &document("Fleet", "f", &spec))]));
        }
        Of::Bool => document("GpuLayout", "l", &format!("\n  timeSlicing: {{replicas: 2}}\n  retire: {value}")),
        Of::Time => {
            let window = format!(
                "\n  reclaim: {{lead: 45m, hardAt: 10m}}\n  lowTide:\n  - days: [Mon]\n    to: \"23:30\"\n    from: \
                    {value}"
            );
            document("TideSchedule", "t", &window)
        }
        Of::Date => {
            let exception = format!(
                "\n  reclaim: {{lead: 45m, hardAt: 10m}}\n  lowTide: [{{days: [Mon], from: \"20:00\", to: \
                    \"23:30\"}}]\n  exceptions:\n  - tide: high\n    date: {value}"
            );
            document("TideSchedule", "t", &exception)
        }
        Of::LabelValue => pool(&format!("a: {value}")),
        Of::LabelKey => pool(&format!("{value}: a")),
    };
    codes(&check(&[("head.yaml", &head()), ("a.yaml", &text)]))
}

fn codes(checked: &Checked) -> Vec<String> {
    let code = |line: String| line.rsplit(' ').next().unwrap_or_default().to_string();
    checked.said().into_iter().map(code).collect()
}

#[track_caller]
fn all_say(of: Of, values: &[&str], expected: &[&str]) {
    for value in values {
        assert_eq!(about(of, value), expected, "{value}");
    }
}

#[test]
fn whole_numbers_have_one_spelling() {
    all_say(Of::Integer, &["0", "7", "1000"], &[]);
    all_say(Of::Integer, &["017", "08", "0o17", "0x1f", "0X1F", "0b11", "1_000", "+1", "00"], &["TW111"]);
    all_say(Of::Integer, &["1e3", "1E3", ".5", "5.", ".inf", "-.INF", ".nan", "20:00", "1:30:00"], &["TW111"]);
    all_say(Of::Integer, &["1.0", "1.10", "no", "on", "yes", "y", "N", "true", "\"5\"", "'5'", "x", "[1]"], &["TW105"]);
    all_say(Of::Integer, &["null", "~", "Null", "", "# nothing"], &["TW110"]);
    all_say(Of::Integer, &["-1", "1000000001", "99999999999999999999"], &["TW108"]);
}

#[test]
fn decimal_numbers_have_one_spelling() {
    all_say(Of::Number, &["0", "0.5", "1.10", "38.10", "1200"], &[]);
    all_say(
        Of::Number,
        &["1e3", "1.5e3", ".5", "5.", "1_000", "017", "0x1f", "0o7", "+1", ".inf", "20:00"],
        &["TW111"],
    );
    all_say(Of::Number, &["-1", "1234567890.1234567", "0.00001"], &["TW107"]);
    all_say(Of::Number, &["\"38.10\"", "yes", "no", "$5", "{}"], &["TW105"]);
    all_say(Of::Number, &["null", "~", ""], &["TW110"]);
}

#[test]
fn text_that_other_readers_take_for_something_else_is_told() {
    all_say(Of::Text, &["norway", "\"no\"", "'on'", "\"017\"", "\"110\"", "nope", "e3", "\"0x1f\""], &[]);
    all_say(Of::Text, &["no", "on", "yes", "y", "n", "off"], &["TW007?"]);
    // One mistake, one report: capitals are no name, whatever other readers take them for.
    all_say(Of::Text, &["NO", "Yes"], &["TW107"]);
    all_say(Of::Text, &["017", "0o17", "0x1f", "1_000", "1e3", ".5", "1.10", "5", "true", "False"], &["TW105"]);
    all_say(Of::Text, &["null", "~", "", "NULL"], &["TW110"]);
}

#[test]
fn times_of_day_and_dates_need_no_quotes_and_say_when_they_want_them() {
    all_say(Of::Time, &["\"20:00\"", "'20:00'", "06:30"], &[]);
    all_say(Of::Time, &["20:00"], &["TW007?"]);
    all_say(Of::Time, &["9:30"], &["TW107"]);
    all_say(Of::Time, &["2000", "20.30", "1e3"], &["TW105"]);
    all_say(Of::Time, &["24:00", "\"9:30\"", "\"+1:30\"", "8pm", "20:00:00"], &["TW107"]);
    all_say(Of::Date, &["2026-11-27", "\"2026-11-27\""], &[]);
    all_say(Of::Date, &["2026-11-31", "26-11-27", "27.11.2026", "2026-W48-5", "+02026-1-1"], &["TW107"]);
    all_say(Of::Date, &["20261127"], &["TW105"]);
}

#[test]
fn switches_are_true_or_false() {
    all_say(Of::Bool, &["true", "false"], &[]);
    all_say(Of::Bool, &["yes", "no", "on", "off", "y", "n", "True", "FALSE", "1", "0", "\"true\"", "[]"], &["TW105"]);
    all_say(Of::Bool, &["", "~", "null"], &["TW110"]);
    let checked =
        check(&[("head.yaml", &head()), ("a.yaml", &document("GpuLayout", "l", "{mps: {clients: 2}, retire: yes}"))]);
    assert_eq!(checked.diagnostics[0].hint.as_deref(), Some("write `true`"));
}

#[test]
fn labels_are_text_on_both_sides() {
    all_say(Of::LabelValue, &["b", "\"1.10\"", "\"no\"", "\"\"", "2026-11-27"], &[]);
    all_say(Of::LabelValue, &["no", "on"], &["TW007?"]);
    all_say(Of::LabelValue, &["1.10", "017", "true", "1e3"], &["TW105"]);
    all_say(Of::LabelKey, &["b", "\"1.10\"", "\"no\"", "nope"], &[]);
    all_say(Of::LabelKey, &["no", "on", "Y", "1.10", "017", "true", "1", "null", "0x1f"], &["TW007?"]);
    all_say(Of::LabelKey, &["\"\"", "\"a b\"", "~"], &["TW107"]);
    all_say(Of::LabelKey, &["? [b]\n    "], &["TW105"]);
}

#[test]
fn a_hint_says_how_to_write_it_instead() {
    let hint = |spec: &str| {
        let quota = document("Quota", "q", &format!("{{namespaces: [{{name: ns}}], tiers: [t], {spec}}}"));
        let checked = check(&[("head.yaml", &head()), ("a.yaml", &format!("{quota}---\n{}", tier("{rank: 1}")))]);
        checked.diagnostics[0].hint.clone().unwrap()
    };
    assert_eq!(hint("cohort: 110"), "put it in quotes: \"110\"");
    assert_eq!(hint("cohort: no"), "put it in quotes: \"no\"");
    assert_eq!(hint("weight: \"3\""), "remove the quotes: 3");
    assert_eq!(hint("cohorts: a"), "did you mean `cohort`?");
    assert!(hint("weight: 0x1f").contains("plain decimal digits"));
}

#[test]
fn documents_and_comments_stand_anywhere() {
    let (first, second) = (tier("{rank: 1}"), document("PreemptionTier", "u", "{rank: 2}"));
    let file = format!("# one\n\n{first}# end\n---\n# two\n{second}...\n# three\n---\n# nothing but this\n");
    let checked = check(&[("head.yaml", &head()), ("a.yaml", &file)]);
    assert_eq!(checked.said(), Vec::<String>::new());
    assert_eq!(checked.valid().tiers.len(), 2);
    let inside = "apiVersion: tidewright.dev/v1alpha1 # v\nkind: PreemptionTier\n# between\nmetadata: # m\n  name: t \
        # n\nspec:\n  # s\n  rank: 1#no comment\n";
    assert_eq!(said(inside), ["8:9 TW105"]);
    // JSON is YAML.
    let json = r#"{"apiVersion": "tidewright.dev/v1alpha1", "kind": "PreemptionTier",
        "metadata": {"name": "t"}, "spec": {"rank": 1}}"#;
    assert_eq!(said(json), Vec::<String>::new());
}

#[test]
fn anchors_aliases_merge_keys_and_tags_are_refused_once_each() {
    assert_eq!(said(&tier("{rank: &r 1}")), ["4:14 TW005"]);
    assert_eq!(said(&tier("&s {rank: 1}")), ["4:7 TW005"]);
    assert_eq!(said(&tier("{rank: *r}")), ["4:14 TW005"]);
    assert_eq!(said(&tier("*s")), ["4:7 TW005"]);
    assert_eq!(said(&tier("{rank: !!int 1}")), ["4:14 TW005"]);
    assert_eq!(said(&tier("!mine {rank: 1}")), ["4:7 TW005"]);
    assert_eq!(said(&tier("{<<: {preempts: never}, rank: 1}")), ["4:8 TW005"]);
    assert_eq!(said(&tier("{<<: *base, rank: 1}")), ["4:8 TW005", "4:12 TW005"]);
    assert_eq!(said(&tier("{? &k rank : 1}")), ["4:10 TW005"]);
    assert_eq!(said(&format!("--- &all\n{}", tier("{rank: 1}"))), ["1:5 TW005"]);
    assert_eq!(said(&format!("--- !!map\n{}", tier("{rank: 1}"))), ["1:5 TW005"]);
    for word in ["apiVersion: *a", "kind: *a", "metadata: *a", "metadata: {name: *a}"] {
        let key = word.split(':').next().unwrap();
        let text: String = tier("{rank: 1}")
            .lines()
            .map(|line| format!("{}\n", if line.starts_with(key) { word } else { line }))
            .collect();
        assert_eq!(codes(&check(&[("head.yaml", &head()), ("a.yaml", &text)])), ["TW005"], "{word}");
    }
}

#[test]
fn a_key_comes_once_and_is_known() {
    assert_eq!(said(&tier("{rank: 1, rank: 2}")), ["4:17 TW006"]);
    assert_eq!(said(&tier("{rank: 1, \"rank\": 2, 'rank': 3}")), ["4:17 TW006", "4:28 TW006"]);
    assert_eq!(said(&format!("{}kind: PreemptionTier\n", tier("{rank: 1}"))), ["5:1 TW006"]);
    assert_eq!(said(&tier("{rank: 1, ranks: 2}")), ["4:17 TW103"]);
    assert_eq!(said(&tier("{rnak: 1}")), ["4:8 TW103"]);
    assert_eq!(said(&tier("{rank: 1, \"\": 2}")), ["4:17 TW103"]);
    assert_eq!(said(&tier("{rank: 1, : 2}")), ["4:17 TW103"]);
    assert_eq!(said(&tier("{rank: 1, ~: 2}")), ["4:17 TW103"]);
    assert_eq!(said(&tier("{rank: 1, [a]: 2}")), ["4:17 TW105"]);
    assert_eq!(said(&format!("{}more: 1\n", tier("{rank: 1}"))), ["5:1 TW103"]);
    assert_eq!(said(&tier("{}")), ["4:7 TW104"]);
    assert_eq!(said(&tier("[]")), ["4:7 TW105"]);
}

#[test]
fn a_document_says_what_it_is() {
    assert_eq!(said("just words\n"), ["1:1 TW105"]);
    assert_eq!(said("- a\n- b\n"), ["1:1 TW105"]);
    assert_eq!(said("a: 1\n"), ["1:1 TW101"]);
    assert_eq!(said("apiVersion: v1\nkind: ConfigMap\n"), ["1:13 TW101"]);
    assert_eq!(said("apiVersion: tidewright.dev/v1\nkind: Tide\n"), ["1:13 TW101"]);
    assert_eq!(said("apiVersion: tidewright.dev/v1alpha1\nkind: Tide\n"), ["2:7 TW102"]);
    assert_eq!(said("apiVersion: tidewright.dev/v1alpha1\n"), ["1:1 TW102"]);
    assert_eq!(said("apiVersion: [v1]\nkind: ConfigMap\n"), ["1:13 TW101"]);
    assert_eq!(said("apiVersion:\nkind: ConfigMap\n"), ["1:1 TW101"]);
    assert_eq!(said("apiVersion: tidewright.dev/v1alpha1\nkind: {}\n"), ["2:1 TW102"]);
    assert_eq!(said("apiVersion: tidewright.dev/v1alpha1\nkind: PreemptionTier\n"), ["1:1 TW104", "1:1 TW104"]);
}

#[test]
fn places_are_right_behind_a_byte_order_mark_and_with_any_line_break() {
    let text = "apiVersion: nobody/v1\nkind: PreemptionTier\n";
    for (before, expected) in [("", "1:13 TW101"), ("\u{feff}", "1:13 TW101"), ("# é\n", "2:13 TW101")] {
        assert_eq!(said(&format!("{before}{text}")), [expected], "{before:?}");
    }
    let broken = tier("\n  rank: x # ü\n  é: 1");
    let places = ["5:9 TW105", "6:3 TW103"];
    assert_eq!(said(&broken), places);
    assert_eq!(said(&broken.replace('\n', "\r\n")), places);
    assert_eq!(said(&format!("\u{feff}{}", broken.replace('\n', "\r\n"))), places);
    // A mark in front of a later document is not at the start of the file.
    let later = format!("{}---\n\u{feff}{}", tier("{rank: 1}"), document("PreemptionTier", "u", "{rank: x}"));
    assert_eq!(said(&later).len(), 1, "{:?}", said(&later));
}

#[test]
fn what_is_not_text_is_answered() {
    assert_eq!(said_of_bytes(b"a: \xff\n"), ["1:4 TW002"]);
    assert_eq!(said_of_bytes(b"kind: x\nb: \xc3\n"), ["2:4 TW002"]);
    let utf_16: Vec<u8> = tier("{rank: 1}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(codes(&check_bytes([("head.yaml", head().as_bytes()), ("a.yaml", &utf_16)])).len(), 1);
    let with_mark: Vec<u8> = [0xff, 0xfe].into_iter().chain(utf_16).collect();
    assert_eq!(said_of_bytes(&with_mark), ["1:1 TW002"]);
    assert_eq!(said("kind: \0\n"), ["1:7 TW004"]);
    assert_eq!(said("kind: \u{7}\n"), ["1:7 TW004"]);
}

#[test]
fn tabs_are_refused_where_they_would_indent() {
    let checked = check(&[("head.yaml", &head()), ("a.yaml", &tier("\n\trank: 1"))]);
    assert_eq!(codes(&checked), ["TW004"]);
    assert!(checked.diagnostics[0].hint.as_ref().is_some_and(|hint| hint.contains("tab")), "{checked:?}");
    assert_eq!(said(&tier("\n  rank:\t1\t# fine")), Vec::<String>::new());
}

#[test]
fn nothing_to_read_is_said() {
    for text in ["", "\n\n", "# only\n# comments\n", "---\n", "---\n---\n...\n", "\u{feff}", "   \n", "--- # x\n...\n"]
    {
        assert_eq!(said(text), ["1:1 TW008?"], "{text:?}");
    }
    let directory = tempfile::tempdir().unwrap();
    let loaded = load(directory.path());
    assert_eq!(loaded.diagnostics.len(), 1);
    assert_eq!((loaded.diagnostics[0].code.id(), loaded.diagnostics[0].labels.len()), ("TW001", 0));
    std::fs::write(directory.path().join("notes.txt"), "a: 1").unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    assert_eq!(load(directory.path()).diagnostics[0].code.id(), "TW001");
}

#[test]
fn directives_change_nothing() {
    let plain = tier("{rank: 017}");
    assert_eq!(said(&plain), ["4:14 TW111"]);
    assert_eq!(said(&format!("%YAML 1.1\n---\n{plain}")), ["6:14 TW111"]);
    assert_eq!(said(&format!("%YAML 1.2\n---\n{}", tier("{rank: 1}"))), Vec::<String>::new());
    assert_eq!(said(&format!("%TAG ! tag:x,2000:\n---\n{}", tier("{rank: !y 1}"))), ["6:14 TW005"]);
    assert_eq!(said(&format!("%YAML 9.9\n---\n{}", tier("{rank: 1}"))).len(), 1);
}

#[test]
fn limits_are_where_they_say() {
    // Ten levels are more than the language has; the walk refuses a mapping there, the limit does not.
    let nested = |depth: usize| tier(&format!("{{rank: 1, labels: {}{}}}", "[".repeat(depth), "]".repeat(depth)));
    assert_eq!(said(&nested(MAX_DEPTH - 2)), ["4:17 TW103"]);
    let deep = said(&nested(MAX_DEPTH));
    assert!(deep.iter().any(|line| line.ends_with("TW003")) && deep.len() <= 2, "{deep:?}");
    let documents = |count: usize| "---\n# nothing\n".repeat(count);
    assert_eq!(said(&documents(MAX_DOCUMENTS)), ["1:1 TW008?"]);
    assert_eq!(codes(&check(&[("a.yaml", &documents(MAX_DOCUMENTS + 1))])), ["TW003"]);
    let filled = |bytes: usize| {
        let tier = tier("{rank: 1}");
        format!("{tier}#{}\n", "x".repeat(bytes - tier.len() - 2))
    };
    assert_eq!(said(&filled(MAX_FILE_BYTES)), Vec::<String>::new());
    assert_eq!(said(&filled(MAX_FILE_BYTES + 1)), ["1:1 TW003"]);
    let labels = |count: usize| {
        let labels: String = (0..count).fold(String::new(), |mut all, n| {
            write!(all, "k{n}: a, ").unwrap();
            all
        });
        format!(
            "apiVersion: tidewright.dev/v1alpha1\nkind: PreemptionTier\nmetadata: {{name: t, labels: \
                {{{labels}}}}}\nspec: {{rank: 1}}\n"
        )
    };
    assert_eq!(said(&labels(MAX_KEYS)), Vec::<String>::new());
    assert_eq!(codes(&check(&[("head.yaml", &head()), ("a.yaml", &labels(MAX_KEYS + 7))])), ["TW003"]);
}

#[test]
fn all_mistakes_of_a_document_are_told_in_their_order() {
    let text = document(
        "NodePool",
        "Pool",
        "\n  spares: -1\n  instanceType: 5\n  nodes: 017\n  fill: reservation\n  capacity: []\n  layuot: x\n  labels: \
            {a b: c, d: no}",
    );
    assert_eq!(
        said(&text),
        [
            "3:18 TW107",
            "5:11 TW108",
            "6:17 TW105",
            "7:3 TW109",
            "7:10 TW111",
            "8:9 TW106",
            "9:13 TW108",
            "10:3 TW103",
            "11:12 TW107",
            "11:23 TW007?",
        ]
    );
}

#[test]
fn mistakes_of_several_files_are_told_by_file_and_line() {
    let (one, two) = (tier("{rank: x}"), document("PreemptionTier", "u", "{rank: 1, y: 1}"));
    let both = format!("{one}---\n{two}");
    let files = [("b/z.yaml", two.as_str()), ("b.yaml", both.as_str()), ("a.yaml", "a: [\n"), ("head.yaml", &head())];
    let forward = check(&files).said();
    assert_eq!(
        forward,
        ["a.yaml:1:4 TW004", "b.yaml:4:14 TW105", "b.yaml:9:17 TW103", "b/z.yaml:3:18 TW201", "b/z.yaml:4:17 TW103"]
    );
    let backward: Vec<_> = files.iter().rev().copied().collect();
    assert_eq!(check(&backward).said(), forward);
}

/// Every document of the starting fleet, with the file it is in.
fn documents() -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (file, (_, text)) in INIT.iter().enumerate() {
        all.extend(text.split("\n---\n").map(|document| (file, format!("{document}\n"))));
    }
    all
}

/// The starting fleet with some documents changed.
fn with(change: impl Fn(usize, &str) -> String) -> Checked {
    let mut files: Vec<(&str, String)> = INIT.iter().map(|(path, _)| (*path, String::new())).collect();
    for (index, (file, document)) in documents().iter().enumerate() {
        let text = &mut files[*file].1;
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&change(index, document));
    }
    check(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>())
}

/// A way to break a document that is one mistake.
type Break = (&'static str, fn(&str) -> String, &'static str);

const BREAKS: [Break; 7] = [
    ("an unknown field", |d| d.replace("\nspec:\n", "\nspec:\n  nobodyKnows: 1\n"), "TW103"),
    ("an unknown kind", |d| d.replace("\nkind: ", "\nkind: My"), "TW102"),
    ("another version", |d| d.replace("v1alpha1", "v7"), "TW101"),
    ("an anchor", |d| d.replace("\nspec:\n", "\nspec: &all\n"), "TW005"),
    ("no YAML", |d| d.replace("\nspec:\n", "\nspec: ]\n"), "TW004"),
    (
        "no name",
        |d| {
            d.lines()
                .filter(|l| !l.starts_with("  name: "))
                .map(|l| format!("{l}\n"))
                .collect::<String>()
                .replace("metadata:\n", "metadata: {}\n")
        },
        "TW104",
    ),
    (
        "a name that is none",
        |d| d.lines().map(|l| format!("{}\n", if l.starts_with("  name: ") { "  name: A B" } else { l })).collect(),
        "TW107",
    ),
];

#[test]
fn the_starting_fleet_is_ten_documents() {
    let checked = with(|_, document| document.into());
    assert_eq!((documents().len(), checked.said()), (10, Vec::new()));
}

#[test]
fn one_broken_document_is_one_report() {
    for (what, broken, code) in BREAKS {
        for hit in 0..documents().len() {
            let checked = with(|index, document| if index == hit { broken(document) } else { document.into() });
            assert_eq!(checked.codes(), [code], "{what} in document {hit}: {:#?}", checked.diagnostics);
            assert!(checked.fleet.is_none());
        }
    }
}

#[test]
fn every_document_broken_is_one_report_each() {
    for (what, broken, code) in BREAKS {
        let checked = with(|_, document| broken(document));
        let files: Vec<_> = checked.said().iter().map(|line| line.split(':').next().unwrap().to_string()).collect();
        assert!(files.is_sorted(), "{files:?}");
        assert_eq!(checked.codes(), vec![code; documents().len()], "{what}: {:#?}", checked.diagnostics);
    }
}

#[test]
fn a_file_that_cannot_be_read_hides_no_mistake_and_causes_none() {
    for (hit, (path, _)) in INIT.iter().enumerate() {
        let files: Vec<(&str, &[u8])> = INIT
            .iter()
            .enumerate()
            .map(|(index, (path, text))| (*path, if index == hit { &b"\xff"[..] } else { text.as_bytes() }))
            .collect();
        assert_eq!(check_bytes(files).said(), [format!("{path}:1:1 TW002")]);
    }
    let second = with(|index, document| match index {
        0 => document.replace("timeZone: America/Los_Angeles", "timeZone: \"America/Los_Angeles"),
        5 => document.replace("rank: 1000", "rank: much"),
        _ => document.into(),
    });
    assert_eq!(codes(&second), ["TW004", "TW105"]);
}

#[test]
fn a_reference_to_nothing_is_told_where_it_is_written() {
    let checked = with(|index, document| match index {
        7 => document.replace("tiers: [batch]", "tiers: [bacth]"),
        _ => document.into(),
    });
    assert_eq!(checked.codes(), ["TW203"]);
    assert_eq!(checked.diagnostics[0].hint.as_deref(), Some("did you mean `batch`?"));
    let empty_names = format!(
        "{}---\n{}",
        document("PreemptionTier", "\"\"", "{rank: 1}"),
        document("PreemptionTier", "\"\"", "{rank: 2}")
    );
    assert_eq!(said(&empty_names), ["3:18 TW107", "8:18 TW107"]);
}

/// However many mistakes bytes hold, the number of reports is bounded, and with it the memory for them. The bound is
/// loose: it is there to catch a report a byte.
const MOST_REPORTS: usize = 1_500;

fn mebibyte(piece: &str) -> String {
    piece.repeat(MAX_FILE_BYTES / piece.len())
}

#[track_caller]
fn bounded(what: &str, text: &str) {
    bounded_by(MOST_REPORTS, what, text);
}

#[track_caller]
fn bounded_by(most: usize, what: &str, text: &str) {
    assert!(text.len() <= MAX_FILE_BYTES, "{what} is too large to be read at all");
    let checked = check(&[("a.yaml", text)]);
    assert!(!checked.diagnostics.is_empty(), "{what}");
    assert!(checked.diagnostics.len() <= most, "{what}: {} reports", checked.diagnostics.len());
    let longest = checked.diagnostics.iter().map(|d| d.message.len() + d.hint.as_ref().map_or(0, String::len)).max();
    assert!(longest < Some(100_000), "{what}: a message of {longest:?} bytes");
}

#[test]
fn a_mebibyte_of_brackets_quotes_or_marks_is_answered() {
    for piece in
        ["[", "{", "- ", "? ", "a: ", "]", "}", "{a: ", "[[],", "\"", "'", "|", ">", "%", "@", "`", "&", "*", "!"]
    {
        bounded(piece, &mebibyte(piece));
    }
    for piece in ["\"a\" ", "'a' ", "&a ", "*a ", "!a ", "- &a x\n", "- *a\n", "- !a x\n", "*a : x\n", "<<: x\n"] {
        bounded(piece, &mebibyte(piece));
    }
    for piece in [
        "- - -\n",
        "-\n",
        ":\n",
        "?\n",
        ": ",
        "---\n",
        "...\n",
        "--- a\n",
        "--- [\n",
        "--- ]\n",
        "a: [\n---\n",
        "%X\n---\n",
    ] {
        bounded(piece, &mebibyte(piece));
    }
    for piece in ["\0", "\t", "\r", "\u{feff}", "\u{2028}", "\u{1f980}", "\u{7}", "#", " "] {
        bounded(piece, &mebibyte(piece));
    }
}

#[test]
fn a_mebibyte_in_one_field_is_answered() {
    let field = |field: &str, open: &str, piece: &str, close: &str| {
        let head = "apiVersion: tidewright.dev/v1alpha1\nkind: Quota\nmetadata: {name: q}\nspec:\n  namespaces: \
            [{name: ns}]\n  tiers: [t]\n";
        let frame = format!("{head}  {field}: {open}");
        let count = (MAX_FILE_BYTES - frame.len() - close.len() - 1) / piece.len();
        format!("{frame}{}{close}\n", piece.repeat(count))
    };
    for (name, open, piece, close) in [
        ("cohort", "", "a", ""),
        ("cohort", "\"", "\\u00e9", "\""),
        ("cohort", "|\n", "    x\n", ""),
        ("shares", "[", "a,", "]"),
        ("shares", "[", "{},", "]"),
        ("shares", "[", "{x: 1},", "]"),
        ("shares", "[", "{pool: p, guarantee: {gpus: 1}},", "]"),
        ("shares", "[", "{pool: p, guarantee: {}, borrow: {}, lend: {}},", "]"),
        ("shares", "[", "{a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7},", "]"),
        ("shares", "[", "{a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1, a: 1},", "]"),
        ("shares", "[", "[a]: b,", "]"),
        ("weight", "", "1", ""),
        ("total", "{slices: {", "1g.10gb: 1,", "}}"),
        ("nobodyKnows", "{", "a: 1,", "}"),
        ("nobodyKnows", "[", "{a: {a: {a: 1}}},", "]"),
    ] {
        bounded(&format!("{name} {piece}"), &field(name, open, piece, close));
    }
}

#[test]
fn a_mebibyte_of_one_list_is_answered() {
    let lists = [
        ("SchedulerProfile", "{score: pack, pools: [", "a,", "]}"),
        ("HealthPolicy", "{limit: 10%, rules: [", "{when: {xid: [1]}, then: [report]},", "]}"),
        ("HealthPolicy", "{limit: 10%, rules: [{when: {xid: [", "1,", "]}, then: [report]}]}"),
        ("HealthPolicy", "{limit: 10%, rules: [{when: {xid: [1]}, then: [", "report,", "]}]}"),
        ("HealthPolicy", "{limit: 10%, rules: [{when: {xid: [1]}, then: [report]}], pools: [", "a,", "]}"),
        ("GpuLayout", "{mig: [", "{slices: {1g.10gb: 1}},", "]}"),
        ("GpuLayout", "{mig: [{slices: {1g.10gb: 1}, gpus: [", "1,", "]}]}"),
        ("Quota", "{tiers: [t], namespaces: [", "{name: a},", "]}"),
        ("Quota", "{namespaces: [{name: ns}], tiers: [", "a,", "]}"),
        ("NodePool", "{instanceType: p5.48xlarge, nodes: 1, capacity: [", "{reservation: a},", "]}"),
        (
            "NodePool",
            "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 1}}], taints: [",
            "{key: a, effect: NoExecute},",
            "]}",
        ),
        (
            "NodePool",
            "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 1}}], placement: {apartFrom: [",
            "a,",
            "]}}",
        ),
        (
            "NodePool",
            "{instanceType: p5.48xlarge, nodes: 1, capacity: [{onDemand: {max: 1}}], updates: {windows: [",
            "{days: [Mon], from: '01:00', to: '02:00'},",
            "]}}",
        ),
        (
            "TideSchedule",
            "{reclaim: {lead: 1h, hardAt: 9m}, lowTide: [",
            "{days: [Mon], from: '01:00', to: '02:00'},",
            "]}",
        ),
        (
            "TideSchedule",
            "{reclaim: {lead: 1h, hardAt: 9m}, lowTide: [{from: '01:00', to: '02:00', days: [",
            "Mon,",
            "]}]}",
        ),
        (
            "TideSchedule",
            "{reclaim: {lead: 1h, hardAt: 9m}, lowTide: [{days: [Mon], from: '01:00', to: '02:00'}], exceptions: [",
            "{date: 2026-01-01, tide: low},",
            "]}",
        ),
        (
            "TideSchedule",
            "{reclaim: {lead: 1h, hardAt: 9m}, lowTide: [{days: [Mon], from: '01:00', to: '02:00'}], lend: [",
            "{pool: a, nodes: 1, from: b, to: b},",
            "]}",
        ),
        (
            "TideSchedule",
            "{reclaim: {lead: 1h, hardAt: 9m}, lowTide: [{days: [Mon], from: '01:00', to: '02:00'}], resize: [",
            "{pool: a, nodes: 1},",
            "]}",
        ),
        ("Fleet", "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, hardware: [", "{name: a, gpus: 1},", "]}"),
        ("Fleet", "{timeZone: UTC, cloud: {sim: {}}, kubernetes: {sim: {}}, include: [", "a,", "]}"),
    ];
    for (kind, open, piece, close) in lists {
        let frame = document(kind, "x", &format!("{open}{close}"));
        let text = document(
            kind,
            "x",
            &format!("{open}{}{close}", piece.repeat((MAX_FILE_BYTES - frame.len()) / piece.len())),
        );
        bounded(&format!("{kind} {piece}"), &text);
    }
}

#[test]
fn half_a_million_keys_are_answered() {
    let keys = |line: fn(usize) -> String| {
        let mut text = String::new();
        for number in 0.. {
            let next = line(number);
            if text.len() + next.len() > MAX_FILE_BYTES {
                return text;
            }
            text.push_str(&next);
        }
        text
    };
    bounded("short keys", &keys(|_| "a:\n".into()));
    bounded("keys", &keys(|n| format!("{n:x}:\n")));
    bounded("flow keys", &keys(|n| format!("{}{n:x}: 1,", if n == 0 { "{" } else { "" })));
    let unknown = keys(|n| match n {
        0 => document("Quota", "q", "\n  namespaces: []"),
        n => format!("  field{n}: 1\n"),
    });
    bounded("unknown fields", &unknown);
    let nested = keys(|n| match n {
        0 => document("Quota", "q", "\n  shares:"),
        n => format!("  - field{n}: 1\n"),
    });
    bounded("unknown fields in a list", &nested);
}

#[test]
fn a_mebibyte_of_documents_is_answered() {
    let of = |kind: &str, spec: &str| {
        let mut text = String::new();
        for number in 0.. {
            let next = format!("---\n{}", document(kind, &format!("x{number}"), spec));
            if text.len() + next.len() > MAX_FILE_BYTES {
                return text;
            }
            text.push_str(&next);
        }
        text
    };
    bounded("unknown kinds", &of("Nobody", "{}"));
    bounded("empty specs", &of("Quota", "{}"));
    // Each names four pools that are not there, and nothing else is wrong with it.
    bounded_by(4 * MAX_DOCUMENTS + 2, "schedulers", &of("SchedulerProfile", "{score: pack, pools: [a, b, c, d]}"));
}
