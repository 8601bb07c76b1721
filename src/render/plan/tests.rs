//! What is on the screen, in a comment, in a file.

use insta::assert_snapshot;

use super::*;
use crate::status::sample;

fn shown<'a>(input: &'a PlanInput, plan: &'a Plan) -> Shown<'a> {
    Shown { input, plan, directory: "clusters/demo" }
}

#[test]
fn a_plan_tells_who_is_disturbed_first() {
    let input = sample::input();
    let plan = sample::plan(&input);
    assert_snapshot!(human(&shown(&input, &plan), &Look::default()), @"
    Fleet test at Mon 2026-11-02 19:55 -08:00 (America/Los_Angeles), revision 9bd0e1c4d5e6, plan 7c1e2f0a9b3c
    3 changes, 2 held, 1 drifted, 2 scheduled

    Changes, the riskiest first
      -+ replace  pool/train  2 nodes, 16 GPUs  5 pods, 1 gang of nlp and vision, ~80 GPU-h at risk, 1 PDB in the way; 4–19 min
           why    launched from another template than the documents ask for
           what   2 × p5.48xlarge in cr-0aaa, us-west-2a
           gang   vision/pretrain-7 (team vision, tier research): 3 pods on 3 nodes, 24 GPUs, last saved 3 h 20 min ago
           PDB    nlp/eval-server allows no eviction now
           lost   nlp/scratch: nobody makes it again, or its local data goes with it
           asks   needs an approval
      +  launch   pool/serve  1 node, 8 GPUs    disturbs nobody; +$21.96/h; 2–5 min
           why    the pool is short of nodes
           what   1 × p4d.24xlarge on demand, us-west-2a
           asks   needs an approval
      +  create   cluster     1 object          disturbs nobody; 0–1 s
           what   Topology/train

    Held: wanted, and not done now
      x pool/train  replace 1 node
           waits  until Tue 10:00
           done   by Tue 10:25, as it looks now
      x pool/serve  re-cut 1 node from whole to halves
           waits  frozen by ana since 18:25: incident 4711
           to do  tidewright thaw pool/serve --dir clusters/demo

    Drift: somebody else moved it
      ClusterQueue/vision: nominalQuota 16 → nominalQuota 24 by kubectl-edit at 17:55; left as it is

    The tide in the next 24 hours
      WHEN   WHAT          CHANGE                                        DISTURBS, AS IT IS NOW
      20:00  tide/nightly  low until Tue 05:45                           -
             pool/serve    2 nodes lent by serving to vision, cut whole  9 pods of serving

    Released: no longer in the documents, so no longer managed. Nothing is destroyed
      pool/old, left as it is: 2 nodes, $65.54 an hour,

    Good to know
      pool/serve: i-0stray is tagged as ours, and nothing explains it

    Plan: 2 nodes to replace, 1 node to launch, 1 object to create; 2 held.
    Cost: on demand and spot $65.88 → $87.84 an hour; reserved $220.16 an hour, of which idle $0
    Time: 4–19 min
    Digest: 62eb5d9e018a225d472e1584581f424322c1a945ca139c7747d99fdce8095e32
    To carry it out: tidewright apply clusters/demo (asks first)
    ");
}
