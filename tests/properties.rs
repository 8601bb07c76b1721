//! Properties of the language, on random fleets: the order of files and documents, printing, and what any bytes lead
//! to. The fleets are made valid by construction, from a list of random numbers that says every choice.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};
use tidewright::diag::Diagnostic;
use tidewright::load::{Loaded, add_bytes};
use tidewright::manifest::{self, Body, lower, print};

use crate::fleets::{Checked, check, check_bytes, now};

/// What says every choice of a fleet. Printed on one line when a test fails.
struct Seeds(Vec<u32>);

impl std::fmt::Debug for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seeds: Vec<String> = self.0.iter().map(u32::to_string).collect();
        write!(f, "[{}]", seeds.join(","))
    }
}

/// Choices in a row; when they run out, the first of everything.
struct Choices<'a>(std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |choice| *choice as usize % count.max(1))
    }

    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    fn one<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.below(of.len())]
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Text that a printer could get wrong.
    fn text(&mut self) -> String {
        let words = [
            "plain",
            "no",
            "Yes",
            "on",
            "~",
            "null",
            "true",
            "017",
            "0x1f",
            "1e3",
            ".5",
            "1_000",
            "20:00",
            "1.10",
            "-",
            "2026-11-27",
            "# none",
            "a: b",
            "- a",
            "? a",
            "{a}",
            "[a]",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a`",
            "'a'",
            "\"a\"",
            "| a",
            "> a",
            "---",
            "...",
            " a",
            "a ",
            "a\nb",
            "a\n\nb\n",
            "\ta",
            "a\tb",
            "\u{e9}",
            "\u{1f980}",
            "\u{feff}a",
            "\u{85}",
            "\u{2028}",
            "\u{7}",
            "\\n",
            "a\\",
            ":",
            "a:",
            "a #b",
            "=",
            "<<",
            ",",
            "\u{a0}",
            "a\r\nb",
            "\u{7f}",
            "100%",
            "0",
            "-1",
            "1.",
            "infinity",
            ".inf",
            "0b1",
            "12e03",
            "y",
            "a\n b",
            "  a\nb",
            "a,b",
            "a, b: {c}",
            "long long long long long long long long long long long long long long long long lines",
        ];
        let count = self.between(1, 3);
        (0..count).map(|_| self.one(&words)).collect::<Vec<_>>().join(self.one(&["", " ", "\n"]))
    }

    fn days(&mut self) -> Value {
        json!([self.one(&["Mon", "Mon-Fri", "Sat", "Sun", "Fri-Sun", "Tue-Thu"])])
    }

    fn window(&mut self) -> Value {
        let (from, to) =
            [("20:00", "06:30"), ("00:00", "06:00"), ("22:15", "23:45"), ("01:30", "09:00")][self.below(4)];
        json!({"days": self.days(), "from": from, "to": to})
    }
}

/// Instance types with their GPUs, and a cut that fits: `(type, GPUs, profile, slices of it a GPU)`.
const TYPES: [(&str, u32, &str, u32); 3] =
    [("p5.48xlarge", 8, "3g.40gb", 2), ("p4d.24xlarge", 8, "1g.5gb", 7), ("p5.48xlarge", 8, "1g.10gb", 7)];

/// What a pool is for the quotas and tides that share it.
struct Room {
    name: String,
    gpus: u32,
    cut: Option<(&'static str, u32)>,
    /// Nodes beyond the spares that nobody has been promised.
    free: usize,
    launched: bool,
    size: usize,
}

struct Fleet<'a> {
    choose: Choices<'a>,
    documents: Vec<Value>,
    rooms: Vec<Room>,
}

/// The documents of a valid fleet.
fn fleet(choices: &[u32]) -> Vec<Value> {
    let mut fleet = Fleet { choose: Choices(choices.iter()), documents: Vec::new(), rooms: Vec::new() };
    fleet.head();
    for index in 0..fleet.choose.between(1, 3) {
        fleet.pool(index);
    }
    fleet.people();
    fleet.policies();
    fleet.documents
}

impl Fleet<'_> {
    fn add(&mut self, kind: &str, name: &str, mut spec: Value) {
        let mut metadata = json!({"name": name});
        if self.choose.below(4) == 1 {
            metadata["labels"] = json!({"team": self.choose.one(&["a", "no", "1.10", "on"])});
            metadata["annotations"] = json!({"note": self.choose.text(), "example.com/no": self.choose.text()});
        }
        // A fleet cannot be renamed: its ledger has its name.
        if self.choose.below(8) == 1 && kind != "Fleet" {
            metadata["renamedFrom"] = format!("old-{name}").into();
            // A queue cannot be renamed, so its name has to be said.
            if kind == "Quota" && spec["clusterQueue"].is_null() {
                spec["clusterQueue"] = format!("old-{name}").into();
            }
        }
        let document =
            json!({"apiVersion": "tidewright.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        self.documents.push(document);
    }

    fn head(&mut self) {
        let c = &mut self.choose;
        let kubernetes = match c.below(3) {
            0 => json!({"sim": {}}),
            1 => json!({"inCluster": {}}),
            _ => json!({"kubeconfig": {"context": c.text()}}),
        };
        let mut spec = json!({
            "timeZone": c.one(&["UTC", "America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe"]),
            "cloud": {"sim": {}},
            "kubernetes": kubernetes,
            "limits": {"hourlyUsd": 1_000_000, "nodesRemovedPerHour": c.below(5)},
            "fabric": {"levels": [
                {"name": "block", "nodeLabel": "example.com/block"},
                {"name": "leaf", "nodeLabel": "leaf"},
            ]},
        });
        if c.chance() {
            spec["frozen"] = json!({"reason": c.text()});
        }
        if c.chance() {
            let price = [json!(38.1), json!(0.5), json!(98), json!(0.0001), json!(9_876.123_45)];
            spec["prices"] = json!({"p5.48xlarge": {"onDemandUsd": price[c.below(5)]}});
        }
        if c.chance() {
            spec["hardware"] =
                json!([{"name": "dgx", "gpu": "h100-sxm", "gpus": 8, "nvlinkDomain": 8, "usdPerHour": 31.25}]);
        }
        self.add("Fleet", "fleet", spec);
    }

    fn pool(&mut self, index: usize) {
        let (kind, gpus, profile, slices) = TYPES[self.choose.below(TYPES.len())];
        let (name, nodes) = (format!("pool-{index}"), self.choose.between(2, 24));
        let spares = self.choose.below(2);
        let mut spec = json!({"instanceType": kind, "spares": spares});
        let source = self.choose.below(4);
        if source == 3 {
            spec["capacity"] = json!([{"existing": {"labels": {"gpu": "h100", "no": "on"}}}]);
            spec["nodes"] = nodes.into();
        } else if source > 0 {
            self.reservation(&format!("held-{index}"), kind, nodes);
            spec["capacity"] = json!([{"reservation": format!("held-{index}")}]);
            spec[if source == 1 { "nodes" } else { "fill" }] =
                if source == 1 { nodes.into() } else { "reservations".into() };
        } else {
            spec["capacity"] = json!([{"spot": {"max": 1, "maxPricePercent": 60}}, {"onDemand": {"max": 40}}]);
            spec["nodes"] = nodes.into();
        }
        let mut cut = None;
        if self.choose.chance() {
            let layout = format!("cut-{index}");
            spec["layout"] = layout.as_str().into();
            match self.choose.below(3) {
                0 => {
                    cut = Some((profile, slices));
                    let mut of_layout = json!({"mig": [{"slices": {profile: slices}}]});
                    if self.choose.chance() {
                        of_layout["mig"][0]["gpus"] = json!([0, 1, 2, 3, 4, 5, 6, 7]);
                    }
                    self.add("GpuLayout", &layout, of_layout);
                }
                1 => self.add("GpuLayout", &layout, json!({"mps": {"clients": 4}})),
                _ => self.add("GpuLayout", &layout, json!({"timeSlicing": {"replicas": 2}, "retire": false})),
            }
        }
        let c = &mut self.choose;
        if c.chance() {
            spec["placement"] = json!({"together": c.one(&["block", "leaf"]), "required": c.chance()});
        }
        if c.chance() {
            spec["labels"] = json!({"workload": c.one(&["training", "no", "017", ""]), "example.com/y": "1e3"});
            spec["taints"] = json!([
                {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
                {"key": "a", "value": "on", "effect": "NoExecute"},
            ]);
        }
        if c.chance() {
            spec["updates"] = json!({"when": "drain", "maxUnavailable": 2, "windows": [c.window()]});
        }
        if c.chance() {
            spec["launch"] = json!({
                "image": {"ssmParameter": {"name": "/aws/eks", "version": 42}},
                "bootstrap": {"nodeadm": {}},
                "subnets": {"tags": {"a:b": c.text(), "no": "x"}},
                "securityGroups": {"tags": {c.one(&["a", "1", "~", "- a"]): "b"}},
                "role": "nodes",
                "volumes": [{"gib": 500}],
            });
        }
        self.add("NodePool", &name, spec);
        self.rooms.push(Room { name, gpus, cut, free: nodes - spares, launched: source == 0, size: nodes });
    }

    fn reservation(&mut self, name: &str, kind: &str, nodes: usize) {
        let terms = if self.choose.chance() { json!({"end": "never", "match": "targeted"}) } else { json!({}) };
        self.add(
            "Reservation",
            name,
            json!({"instanceType": kind, "zone": "us-west-2a", "nodes": nodes, "onDemand": terms}),
        );
    }

    /// Tiers, quotas and the tides between them. The first quota is of the highest tier, so that it may lend.
    fn people(&mut self) {
        let tiers = self.choose.between(1, 3);
        for index in 0..tiers {
            let mut spec = json!({"rank": 1000 - 10 * index, "preempts": self.choose.one(&["never", "lowerTiers"])});
            if self.choose.chance() {
                spec["minimumRuntime"] = self.choose.one(&["2h", "90s", "1h30m"]).into();
                spec["checkpoint"] =
                    json!({"deadline": "1m30s", "signal": self.choose.one(&["annotation", "termination"])});
            }
            self.add("PreemptionTier", &format!("tier-{index}"), spec);
        }
        let quotas = self.choose.between(1, 3);
        let mut first_share = Vec::new();
        for index in 0..quotas {
            let mut shares = Vec::new();
            for room in 0..self.rooms.len() {
                if index > 0 && self.choose.chance() {
                    continue;
                }
                let nodes = self.choose.below(self.rooms[room].free + 1);
                self.rooms[room].free -= nodes;
                let Room { name, gpus, cut, .. } = &self.rooms[room];
                let guarantee = match (cut, self.choose.chance()) {
                    (_, true) => json!({"nodes": nodes}),
                    (Some((profile, slices)), _) => json!({"slices": {*profile: nodes as u32 * gpus * slices}}),
                    (None, _) => json!({"gpus": nodes as u32 * gpus}),
                };
                let mut share = json!({"pool": name, "guarantee": guarantee});
                if self.choose.chance() {
                    share["lend"] = guarantee.clone();
                }
                if index == 0 {
                    first_share.push((room, nodes));
                }
                shares.push(share);
            }
            let spec = json!({
                "namespaces": [
                    {"name": format!("team-{index}")},
                    {"name": "shared", "localQueue": format!("queue-{index}")},
                ],
                "cohort": self.choose.one(&["all", "all/some"]),
                "tiers": (index.min(tiers - 1)..tiers).map(|tier| format!("tier-{tier}")).collect::<Vec<_>>(),
                "shares": shares,
                "weight": self.choose.between(1, 9),
            });
            self.add("Quota", &format!("quota-{index}"), spec);
        }
        if quotas > 1 {
            self.tides(&first_share);
        }
    }

    fn tides(&mut self, lenders: &[(usize, usize)]) {
        for (room, nodes) in lenders {
            if *nodes == 0 || self.choose.chance() {
                continue;
            }
            let lent = self.choose.between(1, *nodes);
            let Room { name, launched, size, .. } = &self.rooms[*room];
            let mut loan = json!({"pool": name, "nodes": lent, "from": "quota-0", "to": "quota-1"});
            if self.choose.chance() {
                loan["layout"] = "whole".into();
            }
            let mut spec = json!({
                "lowTide": [self.choose.window()],
                "lend": [loan],
                "reclaim": {"lead": self.choose.one(&["45m", "1h"]), "hardAt": "10m"},
                "precedence": self.choose.below(3),
            });
            if *launched && self.choose.chance() {
                spec["resize"] = json!([{"pool": name, "nodes": size}]);
            }
            if self.choose.chance() {
                spec["timeZone"] = self.choose.one(&["Asia/Tokyo", "America/New_York"]).into();
                spec["exceptions"] = json!([{"date": "2026-11-27", "tide": self.choose.one(&["high", "low"])}]);
                spec["guard"] = json!({"prometheus": self.choose.text(), "below": 0.6, "staleAfter": "10m"});
            }
            let name = format!("tide-{room}");
            self.add("TideSchedule", &name, spec);
        }
    }

    fn policies(&mut self) {
        let names: Vec<String> = self.rooms.iter().map(|room| room.name.clone()).collect();
        if self.choose.chance() {
            let score = self.choose.one(&["pack", "spread"]);
            let (gang, topology) = (json!({"timeout": "10m"}), json!({"prefer": "leaf"}));
            let spec = json!({"score": score, "gang": gang, "topology": topology, "pools": names});
            self.add("SchedulerProfile", "profile", spec);
        }
        if self.choose.chance() {
            let status = self.choose.one(&["True", "False", "Unknown"]);
            let rules = json!([
                {"when": {"xid": [48, 79]}, "for": "0s", "then": ["reboot", "quarantine"]},
                {"when": {"condition": {"type": "Ready", "status": status}}, "then": ["report"]},
                {"when": {"straggler": {"slowerThan": 1.25, "windows": 3}}, "then": ["report"]},
            ]);
            let spec =
                json!({"rules": rules, "limit": "10%", "admit": [{"condition": "GpuAcceptance", "within": "20m"}]});
            self.add("HealthPolicy", "policy", spec);
        }
    }
}

/// A document in one of three styles: JSON, block style, and block style with flow inside.
fn write(document: &Value, style: usize) -> String {
    match style % 3 {
        0 => json_text(document) + "\n",
        1 => {
            let mut text = String::new();
            block(document, 0, &mut text);
            text
        }
        _ => {
            let fields = document.as_object().unwrap();
            fields.iter().map(|(key, value)| format!("{key}: {}\n", json_text(value))).collect()
        }
    }
}

/// JSON is YAML but for one character, which YAML has only as an escape.
fn json_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap().replace('\u{7f}', "\\u007f")
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                text.push_str(&format!("{pad}{}:", json_text(&Value::from(key.as_str()))));
                inner(value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{pad}-"));
                inner(item, indent, text);
            }
        }
        _ => text.push_str(&format!("{pad}{}\n", json_text(value))),
    }
}

fn inner(value: &Value, indent: usize, text: &mut String) {
    let nested = value.as_object().is_some_and(|o| !o.is_empty()) || value.as_array().is_some_and(|a| !a.is_empty());
    text.push_str(if nested { "\n" } else { " " });
    block(value, if nested { indent + 2 } else { 0 }, text);
}

fn one_file(documents: &[Value], style: usize) -> String {
    documents.iter().enumerate().map(|(n, document)| write(document, style + n)).collect::<Vec<_>>().join("---\n")
}

/// Where a label ends depends on the style, so documents that are compared are written in one.
fn in_one_style(documents: &[Value]) -> String {
    documents.iter().map(|document| write(document, 1)).collect::<Vec<_>>().join("---\n")
}

/// A diagnostic without its place: what it says, and the text at each of its labels.
fn told(checked: &Checked) -> Vec<String> {
    let mut told: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let mut labels: Vec<String> = diagnostic
                .labels
                .iter()
                .map(|(span, label)| {
                    let text = &checked.sources.file(span.file).text;
                    format!("{:?} {label}", &text[span.start as usize..span.end as usize])
                })
                .collect();
            labels.sort();
            format!(
                "{:?} {} {} {:?} {labels:?}",
                diagnostic.severity, diagnostic.code, diagnostic.message, diagnostic.hint
            )
        })
        .collect();
    told.sort();
    told
}

fn bodies(checked: &Checked) -> Vec<&Body> {
    checked.manifests.iter().map(|manifest| manifest.body.as_ref().expect("a body")).collect()
}

fn seeds() -> impl Strategy<Value = Seeds> {
    vec(0u32..5_040, 0..220).prop_map(Seeds)
}

fn seeds_of(count: usize) -> impl Strategy<Value = Seeds> {
    vec(0u32..5_040, count).prop_map(Seeds)
}

/// A fixed seed, so that a run that fails on one machine fails on all. `PROPTEST_CASES=20000 cargo test properties`
/// looks further, from other seeds.
fn config(cases: u32) -> Config {
    let config = Config { failure_persistence: None, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases, rng_seed: RngSeed::Fixed(20_261_116), ..config },
    }
}

/// Spans are inside their file and on character boundaries, and there is a fleet exactly if there is no error.
fn holds_together(bytes: &[u8]) {
    let mut loaded = Loaded::default();
    add_bytes(&mut loaded, "a.yaml", bytes);
    let (fleet, found) = lower(&loaded.manifests, &loaded.sources, now());
    let all: Vec<&Diagnostic> = loaded.diagnostics.iter().chain(&found).collect();
    let errors: Vec<&str> = all.iter().filter(|d| d.is_error()).map(|d| d.code.id()).collect();
    // A document of another program is an error, and says nothing about the fleet.
    assert!(fleet.is_none() || errors.iter().all(|code| *code == "TW101"), "{all:#?}");
    assert!(fleet.is_some() || loaded.manifests.is_empty() || !errors.is_empty(), "{all:#?}");
    for (span, _) in all.iter().flat_map(|diagnostic| &diagnostic.labels) {
        let text = &loaded.sources.file(span.file).text;
        assert!(text.get(span.start as usize..span.end as usize).is_some(), "{span:?} in {} bytes", text.len());
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn the_fleets_of_this_suite_are_valid(seeds in seeds(), style in 0usize..3) {
        let text = one_file(&fleet(&seeds.0), style);
        let checked = check(&[("a.yaml", &text)]);
        let errors: Vec<_> = checked.diagnostics.iter().filter(|d| d.is_error()).collect();
        prop_assert!(errors.is_empty(), "{errors:#?}\n{text}");
        prop_assert!(checked.fleet.is_some());
    }

    #[test]
    fn the_order_of_files_and_documents_changes_nothing(
        seeds in seeds(),
        order in seeds_of(40),
        files in seeds_of(40),
        broken in proptest::option::of((any::<u32>(), any::<u32>())),
    ) {
        let mut documents = fleet(&seeds.0);
        if let Some((document, field)) = broken {
            // A mistake, so that there is something to say: a reference or an amount that is wrong.
            let document = document as usize % documents.len();
            if field % 5 == 0 {
                // Two of one name that say different things.
                let mut twin = documents[document].clone();
                spoil(&mut twin, field);
                documents.push(twin);
            } else {
                spoil(&mut documents[document], field);
            }
        }
        let first = check(&[("a.yaml", &in_one_style(&documents))]);
        let mut shuffled: Vec<(u32, usize, &Value)> =
            (0..).zip(&documents).map(|(n, d)| (order.0[n % 40], files.0[n % 40] as usize % 4, d)).collect();
        shuffled.sort_by_key(|(order, ..)| *order);
        let mut texts = vec![Vec::new(); 4];
        for (_, file, document) in shuffled {
            texts[file].push(document.clone());
        }
        let texts: Vec<(String, String)> = texts
            .iter()
            .enumerate()
            .filter(|(_, documents)| !documents.is_empty())
            .map(|(n, documents)| (format!("{n}.yaml"), in_one_style(documents)))
            .collect();
        let mut paths: Vec<(&str, &[u8])> = texts.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
        let second = check_bytes(paths.clone());
        prop_assert_eq!(told(&first), told(&second));
        // Files that are read in another order are told in the same.
        paths.reverse();
        let third = check_bytes(paths);
        prop_assert_eq!(second.said(), third.said());
        prop_assert_eq!(first.fleet.is_some(), second.fleet.is_some());
        if let (Some(one), Some(two)) = (first.fleet, second.fleet) {
            for hours in [0, 5, 11, 40, 300] {
                let at = now() + jiff::SignedDuration::from_hours(hours);
                prop_assert_eq!(one.target_at(at), two.target_at(at));
            }
        }
    }

    #[test]
    fn what_is_printed_parses_to_the_same(seeds in seeds(), style in 0usize..3) {
        let documents = fleet(&seeds.0);
        let read = check(&[("a.yaml", &one_file(&documents, style))]);
        let printed = print(bodies(&read));
        let again = check(&[("b.yaml", &printed)]);
        let reports: Vec<_> = again.diagnostics.iter().filter(|d| d.code.id() < "TW200").collect();
        prop_assert!(reports.is_empty(), "{reports:#?}\n{printed}");
        prop_assert_eq!(bodies(&read), bodies(&again), "{}", printed);
        prop_assert_eq!(print(bodies(&again)), printed);
    }

    #[test]
    fn a_changed_fleet_is_valid_or_told_to_be_wrong(
        seeds in seeds(),
        style in 0usize..3,
        changes in vec((any::<u32>(), any::<u32>(), any::<u32>()), 1..5),
    ) {
        let mut text = one_file(&fleet(&seeds.0), style).into_bytes();
        for (at, kind, what) in changes {
            mutate(&mut text, at as usize, kind, what as usize);
        }
        holds_together(&text);
    }

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..400)) {
        holds_together(&bytes);
        tidewright::fuzz_entry(&bytes);
    }

    #[test]
    fn any_heap_of_words_is_answered(words in vec(0..WORDS.len(), 0..80)) {
        let text: String = words.into_iter().map(|word| WORDS[word]).collect();
        holds_together(text.as_bytes());
        tidewright::fuzz_entry(text.as_bytes());
    }
}

/// Pieces of which YAML is made, and words of the language.
const WORDS: [&str; 64] = [
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n---\n",
    "\n...\n",
    ": ",
    ":",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "- ",
    "? ",
    "# ",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "&a ",
    "*a ",
    "!!str ",
    "!x ",
    "<<: ",
    "%YAML 1.1\n",
    "\t",
    "\r\n",
    "\u{feff}",
    "\u{e9}",
    "\0",
    "~",
    "null",
    "no",
    "0x1f",
    "1e3",
    "017",
    "20:00",
    "2026-11-27",
    "-1",
    "99999999999999999999",
    "apiVersion",
    "tidewright.dev/v1alpha1",
    "kind",
    "Fleet",
    "NodePool",
    "Quota",
    "TideSchedule",
    "GpuLayout",
    "Reservation",
    "metadata",
    "name",
    "spec",
    "timeZone",
    "UTC",
    "nodes",
    "capacity",
    "shares",
    "guarantee",
    "gpus",
    "lowTide",
    "apiVersion: tidewright.dev/v1alpha1\nkind: Quota\nmetadata: {name: a}\nspec:",
    "mig",
    "slices",
];

/// Makes one mistake somewhere in the spec of a document.
fn spoil(document: &mut Value, choice: u32) {
    fn scalars<'v>(value: &'v mut Value, all: &mut Vec<&'v mut Value>) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(|value| scalars(value, all)),
            Value::Array(items) => items.iter_mut().for_each(|item| scalars(item, all)),
            scalar => all.push(scalar),
        }
    }
    let mut all = Vec::new();
    scalars(&mut document["spec"], &mut all);
    if all.is_empty() {
        return;
    }
    let at = choice as usize % all.len();
    *all[at] = match (&*all[at], choice % 3) {
        (Value::String(text), 0) => format!("{text}x").into(),
        (Value::String(_), 1) => "nobody".into(),
        (Value::Number(_), 0) => 0.into(),
        (Value::Number(_), 1) => 63.into(),
        (Value::Bool(is), _) => (!is).into(),
        _ => Value::Null,
    };
}

fn mutate(text: &mut Vec<u8>, at: usize, kind: u32, what: usize) {
    if text.is_empty() {
        return;
    }
    let at = at % text.len();
    let end = (at + what % 40).min(text.len());
    match kind % 6 {
        0 => drop(text.drain(at..end)),
        1 => drop(text.splice(at..at, WORDS[what % WORDS.len()].bytes())),
        2 => drop(text.splice(at..end, WORDS[what % WORDS.len()].bytes())),
        3 => text[at] = what as u8,
        4 => {
            let copy = text[at..end].to_vec();
            let to = what.wrapping_mul(31) % text.len();
            drop(text.splice(to..to, copy));
        }
        _ => {
            // A whole line twice.
            let line = text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
            let end = text[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |n| at + n + 1);
            let copy = text[line..end].to_vec();
            drop(text.splice(line..line, copy));
        }
    }
}

#[test]
fn the_fleets_of_this_suite_have_every_kind() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0u32..40 {
        let choices: Vec<u32> =
            (0..220u32).map(|n| n.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503)) >> 7).collect();
        kinds.extend(fleet(&choices).iter().map(|document| document["kind"].as_str().unwrap().to_string()));
    }
    let all: std::collections::BTreeSet<String> =
        manifest::Kind::ALL.iter().map(|kind| kind.name().to_string()).collect();
    assert_eq!(kinds, all);
}

#[test]
fn every_field_of_a_block_is_printed_and_read() {
    let text = r#"
apiVersion: tidewright.dev/v1alpha1
kind: Reservation
metadata: {name: block}
spec:
  id: cr-0123456789abcdef0
  manage: observe
  instanceType: p5.48xlarge
  nodes: 8
  capacityBlock:
    duration: 14d
    startBetween: {from: 2026-12-01, to: 2026-12-31}
    maxUpfrontUsd: 371002.88
    approval: {offering: {id: cbo-1, feeUsd: 0.0001}}
    extend: {by: 7d, approval: {mandate: {upToUsd: 100000000000000, expires: "2026-12-01T00:00:00.000000001Z"}}}
"#;
    let read = check(&[("a.yaml", text)]);
    assert!(read.manifests[0].body.is_some(), "{:#?}", read.diagnostics);
    let printed = print(bodies(&read));
    assert_eq!(bodies(&read), bodies(&check(&[("a.yaml", &printed)])), "{printed}");
    for field in ["startBetween", "feeUsd", "expires", "mandate", "observe"] {
        assert!(printed.contains(field), "{field}: {printed}");
    }
}
