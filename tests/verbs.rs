//! The verbs that look at a world and change it, as a person meets them: on the simulator, with no cloud and no cluster.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use assert_cmd::Command;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fleets::INIT;

pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn run(directory: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::cargo_bin("tidewright").unwrap();
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "CI"] {
        command.env_remove(name);
    }
    let output = command.env("TIDEWRIGHT_USER", "ana").current_dir(directory).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// The starting fleet, in a directory of its own.
pub fn fleet() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in INIT {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// The same at ten in the morning, so that no turn of its tide comes into the story, whatever the hour is now.
pub fn fleet_by_day() -> tempfile::TempDir {
    let directory = fleet();
    let Answer { code, err, .. } = run(directory.path(), &["sim", "reset", "--at", "2026-11-16T10:00"]);
    assert_eq!(code, 0, "{err}");
    directory
}

#[test]
fn a_fleet_that_cannot_be_reached_is_told_what_can() {
    let directory = fleet();
    let real = INIT[0].1.replace("kubernetes: {sim: {}}", "kubernetes: {kubeconfig: {context: prod}}");
    std::fs::write(directory.path().join("fleet.yaml"), real).unwrap();
    for verb in
        [vec!["plan"], vec!["apply", "--yes"], vec!["status"], vec!["freeze", "--reason", "x"], vec!["sim", "show"]]
    {
        let Answer { code, out, err } = run(directory.path(), &verb);
        assert_eq!((code, out.as_str()), (1, ""), "{verb:?}: {err}");
        let says = ["a simulated cloud and a real cluster", "kubernetes: {sim: {}}", "cloud: {none: {}}"];
        assert!(says.iter().all(|says| err.contains(says)), "{verb:?}: {err}");
    }
    assert!(!directory.path().join(".tidewright").exists(), "nothing is written for a fleet that cannot be reached");
}

#[test]
fn a_cluster_that_is_not_in_the_kubeconfig_is_told_with_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    let fleet = "apiVersion: tidewright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: lab}\nspec: {timeZone: UTC, cloud: \
                 {none: {}}, kubernetes: {kubeconfig: {context: prod}}}\n";
    std::fs::write(directory.path().join("fleet.yaml"), fleet).unwrap();
    let plan = |kubeconfig: &str| {
        let mut command = assert_cmd::Command::cargo_bin("tidewright").unwrap();
        command.current_dir(directory.path()).env("KUBECONFIG", directory.path().join(kubeconfig)).arg("plan");
        let answer = command.assert().code(1);
        String::from_utf8(answer.get_output().stderr.clone()).unwrap()
    };
    let says = plan("nowhere");
    assert!(says.contains("no kubeconfig to read") && says.contains("point KUBECONFIG at it"), "{says}");
    let config = |server: &str| {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, \
             user: {{token: t}}}}]\ncontexts: [{{name: lab, context: {{cluster: c, user: u}}}}]\n"
        )
    };
    std::fs::write(directory.path().join("other"), config("https://127.0.0.1:1")).unwrap();
    let says = plan("other");
    assert!(says.contains("no context `prod`: it has lab"), "{says}");
    // Nobody listens there.
    let reachable = config("http://127.0.0.1:1").replace("name: lab", "name: prod");
    std::fs::write(directory.path().join("right"), reachable).unwrap();
    let says = plan("right");
    assert!(says.contains("the API server cannot be reached") && says.contains("Check the address"), "{says}");
}

#[test]
fn a_part_that_the_fleet_does_not_have_is_answered_with_the_near_one() {
    let directory = fleet();
    for (arguments, says) in [
        (vec!["plan", "--target", "pool/trian"], "did you mean `train`?"),
        (vec!["plan", "--target", "tide/daily"], "nightly"),
        (vec!["plan", "--target", "train"], "pool/NAME"),
        (vec!["freeze", "pool/trian", "--reason", "x"], "did you mean `train`?"),
        (vec!["freeze", "train", "--reason", "x"], "pool/NAME"),
        (vec!["freeze", "node/nothing", "--reason", "x"], "no node `nothing`"),
        (vec!["freeze", "--reason", " "], "needs a reason"),
        (vec!["freeze"], "--reason"),
        (vec!["quarantine", "nothing", "--reason", "x"], "no node `nothing`"),
        (vec!["return", "nothing"], "not in quarantine"),
        (vec!["drain", "nothing"], "no node `nothing`"),
        (vec!["drain", "nothing", "--reason", " "], "needs a reason"),
        (vec!["drain", "nothing", "--output", "json"], "`drain` has no output `json`"),
        (vec!["undrain", "nothing"], "is not drained; no node is"),
        (
            vec!["sim", "advance", "tomorrow"],
            "a length of time such as 90s, 45m, 2h, 7d or 1h30m, or a time such as 07:00",
        ),
        (vec!["tide", "recall", "nihgtly"], "did you mean `nightly`?"),
    ] {
        let Answer { code, out, err } = run(directory.path(), &arguments);
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn a_plan_file_that_is_none_is_told_and_nothing_is_done() {
    let directory = fleet();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("cut.json", "{\"kind\": \"tidewright-plan\", \"format_version\": \"1.0\", \"plan\": {");
    write("newer.json", "{\"kind\": \"tidewright-plan\", \"format_version\": \"9.0\"}");
    write("other.json", "{\"a\": 1}");
    for (file, says) in [
        ("cut.json", "cut short"),
        ("newer.json", "format 9.0"),
        ("other.json", "no saved plan"),
        ("gone.json", "cannot read `gone.json`"),
    ] {
        for arguments in [vec!["apply", ".", file], vec!["apply", file], vec!["apply", "--approved", file]] {
            let Answer { code, out, err } = run(directory.path(), &arguments);
            assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}: {err}");
            let known = err.contains(says) || file == "gone.json";
            assert!(known, "{arguments:?}: {err}");
        }
        let Answer { code, err, .. } = run(directory.path(), &["replay", file]);
        assert!(code == 1 && err.contains(file), "{err}");
    }
}

#[test]
fn a_freeze_is_seen_by_everybody_until_it_is_lifted() {
    let directory = fleet();
    let Answer { code, out, err } = run(directory.path(), &["freeze", "--reason", "incident 4711"]);
    assert_eq!((code, out.as_str()), (0, "The whole fleet is frozen: incident 4711\n"), "{err}");
    assert!(err.contains("tidewright thaw"), "{err}");
    let Answer { code, out, .. } = run(directory.path(), &["status"]);
    assert!(code == 3 && out.contains("\nFrozen: ") && out.contains("by ana since"), "{out}");
    assert!(out.contains("incident 4711\n  to lift it: tidewright thaw\n"), "{out}");
    let Answer { out, .. } = run(directory.path(), &["status", "--output", "json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&status["verdict"], &status["freezes"][0]["by"]), (&"frozen".into(), &"ana".into()));
    let Answer { code, out, err } = run(directory.path(), &["thaw", "pool/train"]);
    assert!(code == 1 && out.is_empty() && err.contains("is not frozen") && err.contains("the whole fleet"), "{err}");
    assert_eq!(run(directory.path(), &["thaw"]).out, "The whole fleet goes on.\n");
    let Answer { code, out, .. } = run(directory.path(), &["status"]);
    assert!(code == 2 && out.contains("\nChanging: ") && !out.contains("incident 4711"), "{out}");
}

#[test]
fn a_node_is_drained_for_a_person_and_opened_again() {
    let directory = fleet_by_day();
    let done = |arguments: &[&str], code: i32| {
        let answer = run(directory.path(), arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {}{}", answer.out, answer.err);
        answer
    };
    done(&["apply", "--until-converged", "--yes"], 0);
    done(&["sim", "submit", "research", "32"], 0);
    done(&["sim", "advance", "1h"], 0);
    done(&["plan", "--save-input", "input.json"], 0);
    let input: Value =
        serde_json::from_str(&std::fs::read_to_string(directory.path().join("input.json")).unwrap()).unwrap();
    let node = input["input"]["observed"]["cluster"]["pods"]["value"][0]["node"].as_str().unwrap();
    let before = std::fs::read(directory.path().join(".tidewright/sim.json")).unwrap();
    let Answer { out, .. } = done(&["drain", node, "--dry-run"], 2);
    for part in [node, "1 pod to move (1 whole gang)", "gang research/gang-1: 4 pods on 4 nodes, 32 GPUs, tier batch"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(std::fs::read(directory.path().join(".tidewright/sim.json")).unwrap(), before, "nothing was changed");
    // It disturbs work, and nobody can be asked here.
    let Answer { err, .. } = done(&["drain", node], 1);
    assert!(err.contains("needs an approval") && err.contains(&format!("tidewright drain {node} --yes")), "{err}");
    assert!(!done(&["status"], 0).out.contains("Drained: "));
    let Answer { out, err, .. } = done(&["drain", node, "--yes", "--reason", "new fan"], 0);
    assert_eq!(out, format!("{node} is empty, and closed.\n"));
    for step in ["cordon", "ask workload research/gang-1", "suspend workload research/gang-1", "still there: research/"]
    {
        assert!(err.contains(step), "{step}: {err}");
    }
    let status = done(&["status"], 0).out;
    assert!(status.contains(&format!("Drained: {node}, for ana since")) && status.contains(": new fan\n"), "{status}");
    assert!(done(&["plan"], 0).out.contains("No changes."), "it stays as it is");
    // Asked once more, nobody is disturbed, so nobody is asked.
    done(&["drain", node], 0);
    assert!(done(&["status"], 0).out.contains("new fan"), "the reason stays");
    assert_eq!(done(&["undrain", node], 0).out, format!("{node} may serve again.\n"));
    assert!(done(&["plan"], 0).out.contains("No changes."));
    done(&["undrain", node], 1);
}

#[test]
fn status_is_one_screen_and_json_is_what_its_schema_says() {
    let directory = fleet();
    let Answer { out, .. } = run(directory.path(), &["status"]);
    assert!(out.lines().count() <= 40, "{out}");
    for part in ["POOL", "RESERVATION", "QUOTA", "TIDE", "nightly"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/output/status.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let Answer { out, .. } = run(directory.path(), &["status", "--output", "json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    let errors: Vec<String> =
        jsonschema::draft7::new(&schema).unwrap().iter_errors(&status).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn looking_leaves_no_trace() {
    let directory = fleet();
    let markdown = |verb| vec![verb, "--output", "markdown"];
    for arguments in [vec!["plan"], vec!["status"], vec!["sim", "show"], markdown("plan"), markdown("status")] {
        run(directory.path(), &arguments);
    }
    assert!(!directory.path().join(".tidewright").exists());
}

#[test]
fn a_tide_as_the_part_is_what_it_does_to_nodes_and_quotas() {
    let directory = fleet();
    let done = |arguments: &[&str], code: i32| {
        let answer = run(directory.path(), arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {}{}", answer.out, answer.err);
        answer.out
    };
    done(&["sim", "reset", "--at", "2026-11-16T18:00"], 0);
    done(&["apply", "--until-converged", "--yes"], 0);
    done(&["sim", "advance", "3h"], 0);
    let out = done(&["plan", "--target", "tide/nightly"], 2);
    assert!(out.contains("lent to research by the tide nightly"), "{out}");
    done(&["apply", "--until-converged", "--yes"], 0);
    done(&["tide", "recall", "nightly"], 0);
    let out = done(&["plan", "--target", "tide/nightly", "--verbose"], 2);
    for part in ["asked back by the tide nightly", "Cohort tide.research"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let out = done(&["plan", "--target", "pool/train"], 0);
    assert!(out.contains("No changes"), "{out}");
}

#[test]
fn a_saved_input_is_planned_again_byte_for_byte() {
    let directory = fleet();
    run(directory.path(), &["sim", "advance", "1s"]);
    for (format, at) in [("human", "now"), ("human", "2031-01-01T00:00Z"), ("json", "now"), ("markdown", "now")] {
        let here = directory.path().display().to_string();
        let once = ["plan", &here, "--save-input", "input.json", "--output", format, "--at", at];
        let once = run(directory.path(), &once);
        let again = run(directory.path(), &["replay", "input.json", "--output", format]);
        assert!(!once.out.is_empty() && once.out == again.out, "{format}: {}", once.err);
        assert_eq!((once.code, again.code), (2, 2), "{format}");
    }
    let plan: Value =
        serde_json::from_str(&run(directory.path(), &["replay", "input.json", "--output", "json"]).out).unwrap();
    let status: Value = serde_json::from_str(&run(directory.path(), &["status", "--output", "json"]).out).unwrap();
    assert_eq!(plan["plan_id"], status["plan_id"], "the same input has the same id");
}

#[test]
fn the_simulated_world_has_its_own_time_and_begins_anew() {
    let directory = fleet();
    let now = |arguments: &[&str]| {
        let Answer { code, out, err } = run(directory.path(), arguments);
        assert_eq!(code, 0, "{arguments:?}: {err}");
        out
    };
    let at = || {
        let status: Value = serde_json::from_str(&run(directory.path(), &["status", "--output", "json"]).out).unwrap();
        status["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    assert!(now(&["sim", "advance", "1s"]).starts_with("It is "));
    let before = at();
    now(&["sim", "advance", "6h"]);
    assert_eq!(at().duration_since(before), jiff::SignedDuration::from_hours(6));
    let ignored = std::fs::read_to_string(directory.path().join(".tidewright/.gitignore")).unwrap();
    assert!(ignored.contains("sim.json"), "{ignored}");
    assert!(now(&["sim", "show"]).contains("It is "));
    assert!(now(&["sim", "reset"]).contains("begins anew"));
    assert!(now(&["sim", "reset"]).contains("no world yet"));
    assert_eq!(run(directory.path(), &["sim", "advance", "soon"]).code, 1);
    std::fs::write(directory.path().join(".tidewright/sim.json"), "{\"version\": 1, ").unwrap();
    let Answer { code, out, err } = run(directory.path(), &["status"]);
    assert!(code == 1 && out.is_empty() && err.contains("damaged"), "{err}");
}

#[test]
fn a_shell_and_a_reader_learn_all_verbs() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let Answer { code, out, err } = run(directory.path(), &["completions", shell]);
        assert!(code == 0 && out.contains("quarantine") && err.is_empty(), "{shell}: {err}");
    }
    assert!(run(directory.path(), &["completions", "bsh"]).err.contains("bash"));
    let page = run(directory.path(), &["man"]).out;
    assert!(page.contains(".TH tidewright") && page.contains("quarantine"), "{page}");
    assert_eq!(run(directory.path(), &["man", "--out", "pages"]).code, 0);
    for verb in ["plan", "apply", "tide", "sim"] {
        assert!(directory.path().join(format!("pages/tidewright-{verb}.1")).is_file(), "{verb}");
    }
}

#[test]
fn a_fleet_converges_is_edited_and_converges_again() {
    let directory = fleet_by_day();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let richer = INIT[0].1.replace("hourlyUsd: 120", "hourlyUsd: 500");
    std::fs::write(directory.path().join("fleet.yaml"), richer).unwrap();
    // Nobody sits here: what needs an approval is refused with what to write.
    let Answer { code, out, err } = run(&["apply"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("--yes") && err.contains("--approved"), "{err}");
    let Answer { code, err, .. } = run(&["apply", "--approved", "0123456789abcdef"]);
    assert!(code == 1 && err.contains("not the digest"), "{err}");
    let Answer { code, out, err } = run(&["apply", "--yes", "--until-converged"]);
    assert_eq!((code, out.as_str()), (0, "Fleet my-fleet is as git says.\n"), "{err}");
    let Answer { code, out, .. } = run(&["plan"]);
    assert!(code == 0 && out.contains("\nNo changes. The fleet is as the documents say.\n"), "{out}");
    let Answer { code, out, .. } = run(&["status"]);
    assert!(code == 0 && out.contains("\nConverged: as git says\n"), "{out}");

    let pools = directory.path().join("pools.yaml");
    let edited = std::fs::read_to_string(&pools).unwrap().replacen(
        "  nodes: 4\n  capacity:\n    - {reservation: base}",
        "  nodes: 5\n  capacity:\n    - {reservation: base}",
        1,
    );
    std::fs::write(&pools, &edited).unwrap();
    let Answer { code, out, err } = run(&["plan", "--out", "plan.json"]);
    assert!(code == 2 && out.contains("launch") && out.contains("/h") && err.contains("plan.json"), "{out}{err}");
    // Somebody wants more in the meantime: what was seen does not hold any more.
    std::fs::write(&pools, edited.replacen("  nodes: 5\n", "  nodes: 6\n", 1)).unwrap();
    let Answer { code, out, err } = run(&["apply", ".", "plan.json"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("does not hold any more") && err.contains("launch pool/train: 2"), "{err}");
    std::fs::write(&pools, &edited).unwrap();
    let Answer { code, err, .. } = run(&["apply", "plan.json", "--until-converged"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(run(&["plan"]).code, 0);
}

#[test]
fn an_apply_that_is_interrupted_stops_cleanly_and_the_next_run_goes_on() {
    for presses in [1, 2] {
        // The demo, because it takes long enough to be interrupted.
        let directory = crate::pages::empty_demo();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tidewright"))
            .args(["apply", "--until-converged", "--yes"])
            .current_dir(directory.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut err = String::new();
        // The first when something was done and much is left, the second when the first was heard.
        for heard in [": done", "Finishing the steps in flight"].iter().take(presses) {
            while !err.contains(heard) {
                assert_ne!(said.read_line(&mut err).unwrap(), 0, "it ended: {err}");
            }
            // It may have ended by itself after the first.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
        }
        said.read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{presses}: {err}");
        assert!(err.contains("Finishing the steps in flight") && err.contains("Stopped."), "{presses}: {err}");
        let Answer { code, err, .. } = run(directory.path(), &["apply", "--until-converged", "--yes"]);
        assert_eq!(code, 0, "{presses}: {err}");
        let world = run(directory.path(), &["sim", "show"]).out;
        assert!(world.contains("12 running") && world.contains("16 running"), "{world}");
        assert!(world.contains("\n  launch 28\n"), "none was launched twice: {world}");
    }
}

#[test]
fn a_saved_plan_writes_what_it_says_and_nothing_else() {
    let directory = fleet_by_day();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    run(&["apply", "--until-converged", "--yes"]);
    let teams = directory.path().join("teams.yaml");
    let before = std::fs::read_to_string(&teams).unwrap();
    let guarantee = |gpus: &str| before.replacen("guarantee: {gpus: 32}", &format!("guarantee: {{gpus: {gpus}}}"), 1);
    std::fs::write(&teams, guarantee("24")).unwrap();
    let Answer { code, out, err } = run(&["plan", "--out", "plan.json"]);
    assert_eq!(code, 2, "{out}{err}");
    std::fs::write(&teams, guarantee("16")).unwrap();
    let Answer { code, err, .. } = run(&["apply", ".", "plan.json"]);
    assert!(code == 1 && err.contains("would be written differently"), "{err}");
    std::fs::write(&teams, guarantee("24")).unwrap();
    assert_eq!(run(&["apply", "plan.json", "--until-converged"]).code, 0);
    let Answer { code, err, .. } = run(&["plan", "--at", "2030-01-01T00:00Z", "--out", "later.json"]);
    assert!(code == 1 && err.contains("--at") && !directory.path().join("later.json").exists(), "{err}");
}

#[test]
fn what_was_approved_and_not_done_yet_says_how_it_goes_on() {
    let directory = fleet_by_day();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
    for (file, old, new) in [
        ("pools.yaml", "p5.48xlarge\n  nodes: 4", "p5.48xlarge\n  nodes: 3"),
        ("pools.yaml", "us-west-2a\n  nodes: 4", "us-west-2a\n  nodes: 3"),
        ("teams.yaml", "gpus: 32", "gpus: 24"),
    ] {
        let path = directory.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{file} has no {old:?}");
        std::fs::write(path, text.replace(old, new)).unwrap();
    }
    // The node goes first, and the reservation becomes smaller in a later round.
    // It is more than may be removed without a word by name, so all of it waits for one.
    assert_eq!(run(&["plan", "--out", "plan.json"]).code, 3);
    assert_eq!(run(&["apply", "--approved", "plan.json"]).code, 2);
    let Answer { out, .. } = run(&["plan"]);
    assert!(out.contains("goes on with what ana approved"), "{out}");
    let said = out.lines().find_map(|line| line.strip_prefix("To carry it out: tidewright ")).unwrap();
    let Answer { out, .. } = run(&["status"]);
    assert!(out.contains("waits for an approval (`tidewright apply --approved "), "{out}");
    let command: Vec<&str> = said.split(" (").next().unwrap().split(' ').chain(["--until-converged"]).collect();
    assert_eq!(run(&command).code, 0, "{command:?}");
    assert!(run(&["plan"]).out.contains("No changes."));
    // Of an approval that is used up nothing is left for the next edit.
    let path = directory.path().join("pools.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, text.replace("nodes: 3", "nodes: 2")).unwrap();
    let teams = directory.path().join("teams.yaml");
    let text = std::fs::read_to_string(&teams).unwrap();
    std::fs::write(teams, text.replace("gpus: 24", "gpus: 16")).unwrap();
    let Answer { out, .. } = run(&["plan"]);
    assert!(!out.contains("goes on with what"), "{out}");
}

/// `script` lends a terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_on_which_nothing_can_be_drawn_is_told_line_by_line() {
    for (term, ci, escape) in [("dumb", "", "\u{1b}"), ("xterm", "true", "\u{1b}[2K")] {
        let directory = fleet_by_day();
        let mut lent = std::process::Command::new("script");
        let command = format!("{} apply --yes", env!("CARGO_BIN_EXE_tidewright"));
        lent.args(["-qec", &command, "/dev/null"]).env("TERM", term).env("CI", ci).current_dir(directory.path());
        let Ok(answer) = lent.stdin(std::process::Stdio::null()).output() else {
            eprintln!("skipped: there is no `script`");
            return;
        };
        let said = String::from_utf8_lossy(&answer.stdout);
        assert!(said.contains(": done\r\n") && !said.contains(escape), "{term}: {said}");
    }
}

#[test]
fn orders_that_mean_nothing_are_errors_that_say_so() {
    let directory = fleet();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    for (arguments, word) in [
        (&["thaw"][..], "nobody froze anything"),
        (&["thaw", "pool/train"], "nobody froze anything"),
        (&["return", "ip-10-0-0-5"], "not in quarantine"),
        (&["sim", "submit", "reserach", "8"], "did you mean `research`"),
        (&["sim", "submit", "research", "8", "--name", "A_B"], "no name of a workload"),
    ] {
        let Answer { code, out, err } = run(arguments);
        assert!(code == 1 && out.is_empty() && err.contains(word), "{arguments:?}: {code} {out}{err}");
    }
    for verb in ["show", "advance", "submit", "reset"] {
        let Answer { out, .. } = run(&["sim", verb, "--help"]);
        assert!(out.contains(&format!("Examples:\n  tidewright sim {verb}")), "{out}");
    }
}

#[test]
fn a_fleet_can_be_stopped_whatever_is_wrong_with_its_documents() {
    let directory = fleet_by_day();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    assert_eq!(run(&["apply", "--yes", "--until-converged"]).code, 0);
    let pools = directory.path().join("pools.yaml");
    let right = std::fs::read_to_string(&pools).unwrap();
    std::fs::write(&pools, right.replace("instanceType: p5.48xlarge", "instanceType: [")).unwrap();
    assert_eq!(run(&["plan"]).code, 1);
    let Answer { code, out, err } = run(&["freeze", "--reason", "incident 4711"]);
    assert_eq!((code, out.as_str()), (0, "The whole fleet is frozen: incident 4711\n"), "{err}");
    assert!(err.contains("it needs only the Fleet document"), "{err}");
    assert_eq!(run(&["freeze", "pool/train", "--reason", "audit"]).code, 0, "a pool whose nodes are known");
    let unknown = run(&["freeze", "pool/trian", "--reason", "audit"]);
    assert!(unknown.code == 1 && unknown.err.contains("freeze the whole fleet"), "{}", unknown.err);
    assert_eq!(run(&["thaw", "pool/train"]).code, 0);
    std::fs::write(&pools, right).unwrap();
    assert_eq!(run(&["plan"]).code, 0, "nothing was to be done");
    assert!(run(&["status"]).out.contains("incident 4711"));
    // Without a Fleet document nobody knows where the fleet lives.
    std::fs::write(directory.path().join("fleet.yaml"), "kind: [").unwrap();
    assert_eq!(run(&["thaw"]).code, 1);
}

#[test]
fn a_freeze_is_never_weakened_by_another() {
    let directory = fleet();
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    assert_eq!(run(&["freeze", "--all", "--reason", "incident 4711"]).code, 0);
    let Answer { code, err, .. } = run(&["freeze", "--reason", "lunch"]);
    assert!(code == 1 && err.contains("incident 4711"), "{err}");
    let Answer { code, err, .. } = run(&["freeze", "--all", "--reason", "incident 4712"]);
    assert!(code == 0 && err.contains("takes the place"), "{err}");
}

#[test]
fn what_is_missing_is_said_and_lost_only_by_a_word() {
    let directory = fleet_by_day();
    run(directory.path(), &["apply", "--until-converged", "--yes"]);
    // What was launched within the last half hour may not be listed yet.
    assert_eq!(run(directory.path(), &["sim", "advance", "1h"]).code, 0);
    let none = run(directory.path(), &["lost"]);
    assert_eq!((none.code, none.out.as_str()), (0, "Nothing is missing.\n"), "{}", none.err);
    // An instance that the ledger knows and nobody lists: its record names another one.
    let state = directory.path().join(".tidewright/sim.json");
    let text = std::fs::read_to_string(&state).unwrap();
    let mut world: Value = serde_json::from_str(&text).unwrap();
    let known = instance_of(&mut world).expect("a slot with an instance");
    let gone =
        text.replacen(&format!("\"instance\":\"{known}\",\"node\":null"), "\"instance\":\"i-gone\",\"node\":null", 1);
    assert_ne!(gone, text, "the record was found");
    std::fs::write(&state, gone).unwrap();
    let missing = run(directory.path(), &["lost"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    assert!(missing.out.contains("i-gone"), "{}", missing.out);
    assert!(run(directory.path(), &["lost"]).out.contains("i-gone"), "looking forgets nothing");
    assert_eq!(run(directory.path(), &["lost", "--yes"]).code, 0);
    assert_eq!(run(directory.path(), &["lost"]).out, "Nothing is missing.\n");
}

/// The first instance that the ledger of a world knows.
fn instance_of(world: &mut Value) -> Option<String> {
    match world {
        Value::Object(map) => {
            let is_slot = map.contains_key("generation") && map.contains_key("refused") && map.contains_key("intent");
            if let Some(id) = map.get("instance").and_then(Value::as_str).filter(|_| is_slot) {
                return Some(id.to_string());
            }
            map.values_mut().find_map(instance_of)
        }
        Value::Array(items) => items.iter_mut().find_map(instance_of),
        _ => None,
    }
}

/// A copy of an example, in a directory of its own.
fn example(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
        }
    }
    directory
}

#[test]
fn examples_of_existing_nodes_and_of_spot_converge_from_the_command_line() {
    for (name, nodes) in [("adopt-existing", 10), ("declared-fabric", 12), ("spot", 8)] {
        let directory = example(name);
        let Answer { code, out, err } = run(directory.path(), &["apply", "--yes", "--until-converged"]);
        assert_eq!(code, 0, "{name}: {out}{err}");
        assert!(out.contains("as git says"), "{name}: {out}");
        let shown = run(directory.path(), &["sim", "show"]).out;
        assert!(shown.contains(&format!("{nodes} nodes, {nodes} ready")), "{name}: {shown}");
        assert_eq!(shown.contains("that no cloud launched"), name != "spot", "{name}: {shown}");
    }
}

#[test]
fn what_is_said_while_a_fleet_comes_up_is_how_things_ended() {
    let directory = fleet_by_day();
    let Answer { code, err, .. } = run(directory.path(), &["apply", "--yes", "--until-converged"]);
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains('…') && !err.contains("RequestLimitExceeded") && !err.contains("wait until"), "{err}");
    let mut lines: Vec<&str> = err.lines().filter_map(|line| line.split_once("  ")).map(|(_, said)| said).collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "something is said twice: {err}");
}

#[test]
fn worlds_that_are_put_aside_are_all_kept() {
    let directory = fleet();
    for _ in 0..3 {
        run(directory.path(), &["sim", "advance", "1h"]);
        assert_eq!(run(directory.path(), &["sim", "reset"]).code, 0);
    }
    for name in ["sim.json.old", "sim.json.old.2", "sim.json.old.3"] {
        assert!(directory.path().join(".tidewright").join(name).exists(), "{name}");
    }
}

#[test]
fn hints_and_times_are_for_the_fleet_that_was_named() {
    let directory = fleet();
    let above = directory.path().parent().unwrap();
    let name = directory.path().file_name().unwrap().to_str().unwrap();
    let frozen = run(above, &["freeze", "--reason", "x", "--dir", name]);
    assert!(frozen.err.contains(&format!("tidewright thaw --dir {name}")), "{}", frozen.err);
    assert_eq!(run(above, &["thaw", "--dir", name]).code, 0);
    let again = run(above, &["thaw", "--dir", name]);
    assert!(again.err.contains("there is nothing to lift"), "{}", again.err);
    let shown = run(above, &["sim", "show", "--dir", name]).out;
    let time = shown.lines().next().unwrap();
    assert!(time.len() == "It is Mon 2026-03-02 08:00:00 +00:00.".len(), "{time}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_an_error_and_a_reader_that_went_away_is_none() {
    use std::process::Stdio;
    let directory = fleet();
    let program = assert_cmd::cargo::cargo_bin("tidewright");
    let mut plan = std::process::Command::new(&program);
    plan.arg("plan").current_dir(directory.path());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let answer = plan.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(answer.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&answer.stderr).contains("cannot be written"));
    let mut closed = plan.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(closed.stdout.take());
    let answer = closed.wait_with_output().unwrap();
    assert_eq!((answer.status.code(), String::from_utf8_lossy(&answer.stderr).as_ref()), (Some(2), ""));
}

#[test]
fn the_script_language_is_told_by_its_verb() {
    let help = run(Path::new("."), &["sim", "run", "--help"]).out;
    for usage in ["submit gang QUOTA GPUS", "crash before|after|at-answer effect N", "expect plan"] {
        assert!(help.contains(usage), "{usage}: {help}");
    }
}

#[test]
fn a_node_that_is_gone_is_not_returned() {
    let directory = fleet();
    let answer = run(directory.path(), &["return", "ip-10-0-0-7"]);
    assert_eq!(answer.code, 1);
    assert!(answer.err.contains("the cluster has no node of that name"), "{}", answer.err);
}
