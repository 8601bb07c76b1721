//! The language itself: what is wrong is said with its line and what was probably meant.

mod laws;
mod mistakes;

use std::path::Path;

use super::*;

fn wrong(script: &str) -> String {
    run(script, Path::new(".")).expect_err("a wrong script").to_string()
}

#[test]
fn an_unknown_command_names_the_nearest() {
    let said = wrong("start 2026-03-02T08:00Z\n\nconverg\n");
    assert!(said.starts_with("line 3: converg"), "{said}");
    assert!(said.contains("did you mean `converge`?"), "{said}");
}

#[test]
fn a_wrong_argument_is_told_before_anything_runs() {
    let said = wrong("start 2026-03-02T08:00Z\nadvance soon\nplan\n");
    assert!(said.contains("line 2") && said.contains("`soon` is no length of time"), "{said}");
    let said = wrong("start 2026-03-02T08:00Z\nfail next launch no-capazity\n");
    assert!(said.contains("did you mean `no-capacity`?"), "{said}");
    let said = wrong("start 2026-03-02T08:00Z\nplan now\n");
    assert!(said.contains("one word too many"), "{said}");
}

#[test]
fn a_script_begins_with_its_world() {
    assert!(wrong("plan\n").contains("there is no world yet"));
    assert!(wrong("start 2026-03-02T08:00Z\nplan\n").contains("there is no fleet yet"));
    assert!(wrong("| output\n").contains("stands under a command"));
    assert!(wrong("start 2026-03-02T08:00Z\nplan\n  kind: NodePool\n").contains("takes no lines under it"));
}

#[test]
fn output_that_differs_is_told_as_a_diff() {
    let script = "# A story.\nstart 2026-03-02T08:00Z\nfleet\n  kind: PreemptionTier\n  metadata: {name: a}\n  spec: {rank: 1}\nshow\n| It is yesterday.\n\n# The end.\n";
    let transcript = run(script, Path::new(".")).unwrap();
    let [difference] = transcript.differences.as_slice() else { panic!("{:?}", transcript.differences) };
    let said = difference.to_string();
    assert!(
        said.starts_with("line 7: show\n - | It is yesterday.\n + | It is Mon 2026-03-02 08:00:00 +00:00."),
        "{said}"
    );
    let again = run(&transcript.text, Path::new(".")).unwrap();
    assert_eq!(again.differences, []);
    assert_eq!(again.text, transcript.text);
    assert!(transcript.text.ends_with("\n\n# The end.\n"), "{}", transcript.text);
}

#[test]
fn every_command_is_described_for_people() {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = plain(include_str!("../../CONTRIBUTING.md"));
    for (name, usage) in COMMANDS {
        assert!(page.contains(&format!("`{}`", plain(usage))), "CONTRIBUTING.md does not say: {name}: {usage}");
    }
}
