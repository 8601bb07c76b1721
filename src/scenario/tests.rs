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

/// A small fleet, for scripts that name its parts.
const FLEET: &str = r#"start 2026-03-02T08:00Z
fleet
  kind: Reservation
  metadata: {name: h100}
  spec:
    id: cr-0123456789abcdef0
    manage: observe
    instanceType: p5.48xlarge
    zone: us-west-2a
    nodes: 1
    onDemand: {end: never, match: targeted}
  ---
  kind: NodePool
  metadata: {name: train}
  spec: {instanceType: p5.48xlarge, nodes: 1, capacity: [{reservation: h100}], layout: whole}
  ---
  kind: PreemptionTier
  metadata: {name: production}
  spec: {rank: 1000}
  ---
  kind: Quota
  metadata: {name: serving}
  spec: {namespaces: [{name: serving}], tiers: [production], shares: [{pool: train, guarantee: {gpus: 8}}]}
  ---
  kind: Quota
  metadata: {name: batch}
  spec: {namespaces: [{name: batch}], tiers: [production]}
  ---
  kind: TideSchedule
  metadata: {name: nightly}
  spec:
    lowTide: [{days: [Mon-Sun], from: "20:00", to: "06:30"}]
    lend: [{pool: train, nodes: 1, from: serving, to: batch, layout: whole}]
    reclaim: {lead: 45m, hardAt: 10m}
    guard: {prometheus: "sum(rate(requests))", below: 0.6, staleAfter: 10m}
converge
"#;

#[test]
fn a_name_that_nothing_has_is_told_with_the_nearest() {
    for (command, what, hint) in [
        ("traffic nightli 0.4", "there is no tide `nightli`", "did you mean `nightly`?"),
        ("recall weekend", "there is no tide `weekend`", "known: nightly"),
        ("expect nodes trian 0", "there is no pool `trian`", "did you mean `train`?"),
        ("expect ready trian 0", "there is no pool `trian`", "did you mean `train`?"),
        ("expect frozen pool/trian", "there is no pool `trian`", "did you mean `train`?"),
        ("freeze pool/trian audit", "there is no pool `trian`", "did you mean `train`?"),
        ("thaw pool/trian", "there is no pool `trian`", "did you mean `train`?"),
        ("freeze node/ip-10-0-0-9 audit", "there is no node `ip-10-0-0-9`", "ip-10-0-0-"),
        ("quarantine ip-10-0-0-9 loud", "there is no node `ip-10-0-0-9`", "ip-10-0-0-"),
        ("quarantine trian/0 loud", "there is no pool `trian`", "did you mean `train`?"),
        ("kill trian/0", "there is no pool `trian`", "did you mean `train`?"),
        ("drain ip-10-0-0-9 loud", "there is no node `ip-10-0-0-9`", "ip-10-0-0-"),
        ("drain dry-run ip-10-0-0-9", "there is no node `ip-10-0-0-9`", "ip-10-0-0-"),
        ("return train/0", "there is no node that is kept out of service `ip-", "there is no node that is kept out"),
        ("undrain train/0", "there is no node that is kept out of service `ip-", "there is no node that is kept out"),
        ("submit gang sarving 8", "there is no quota `sarving`", "did you mean `serving`?"),
        ("submit gang serving 8 tier prod", "there is no tier `prod`", "did you mean `production`?"),
        ("submit service web/api 1 x nvidia.com/gpu pool trian", "there is no pool `trian`", "did you mean `train`?"),
    ] {
        let said = wrong(&format!("{FLEET}{command}\n"));
        let line = FLEET.lines().count() + 1;
        assert!(said.starts_with(&format!("line {line}: {command}\n  {what}")), "{said}");
        assert!(said.split_once("hint: ").is_some_and(|(_, told)| told.contains(hint)), "{said}");
    }
}

#[test]
fn a_name_whose_document_is_gone_stays_known() {
    let script = format!("{FLEET}delete TideSchedule/nightly\nrecall nightly\ntraffic nightly 0.4\n");
    let said = wrong(&script);
    assert!(said.contains("traffic nightly 0.4\n  the document of nightly is gone"), "{said}");
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
