"""The least cost of crossings of the problems in src/fabric/tests/middle.txt, found by HiGHS.

    pip install highspy
    python tests/python/placement.py [SECONDS] < src/fabric/tests/middle.txt

One line a problem: a name, the blocks of each spine with their hosts, the pools with their sizes, then (read over here) the
answers, and how many spines and blocks all pools have beyond their first at least, by the bound of benches/fabric/bound.rs:
without it HiGHS takes much longer; `0,0` says nothing. It prints the line with what was found and what HiGHS proved that
nothing is below; where both are the same, that is the optimum. One more spine costs a pool 2 and one more block 1, as in
the test that holds the answers. Nothing of the program needs this.
"""

import math
import sys

import highspy


def at_least(rooms, nodes):
    """How many of the largest rooms hold so many nodes: nobody needs fewer."""
    held = 0
    for many, room in enumerate(sorted(rooms, reverse=True), 1):
        held += room
        if held >= nodes:
            return many
    return len(rooms)


def solve(spines, pools, least, seconds):
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("time_limit", float(seconds))
    # Every cost is whole: what is less than one above the bound is the optimum.
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 0.99)
    blocks = [(spine, size) for spine, sizes in enumerate(spines) for size in sizes]
    rooms = [sum(sizes) for sizes in spines]
    all_opened = []
    all_used = []
    load = [[] for _ in blocks]
    for nodes in pools:
        opened = [model.addBinary() for _ in spines]
        takes = [[] for _ in spines]
        uses = [[] for _ in spines]
        for block, (spine, size) in enumerate(blocks):
            most = min(nodes, size)
            # With the blocks chosen, what is left is a flow: it comes out whole by itself.
            take = model.addVariable(lb=0, ub=most)
            used = model.addBinary()
            model.addConstr(take <= most * used)
            model.addConstr(used <= opened[spine])
            takes[spine].append(take)
            uses[spine].append(used)
            load[block].append(take)
        # The rest says nothing new, and makes the bound rise sooner.
        for spine, room in enumerate(rooms):
            model.addConstr(sum(takes[spine]) <= min(nodes, room) * opened[spine])
            model.addConstr(sum(uses[spine]) >= opened[spine])
        model.addConstr(sum(take for all in takes for take in all) == nodes)
        model.addConstr(sum(used for all in uses for used in all) >= at_least([size for _, size in blocks], nodes))
        model.addConstr(sum(opened) >= at_least(rooms, nodes))
        all_opened.extend(opened)
        all_used.extend(used for all in uses for used in all)
    for (_, size), taken in zip(blocks, load):
        model.addConstr(sum(taken) <= size)
    model.addConstr(sum(all_opened) >= len(pools) + least[0])
    model.addConstr(sum(all_used) >= len(pools) + least[1])
    model.minimize(2 * sum(all_opened) + sum(all_used))
    first = 3 * len(pools)
    info = model.getInfo()
    return round(info.objective_function_value) - first, math.ceil(info.mip_dual_bound - first - 1e-6)


for line in sys.stdin:
    cells = line.split()
    name, spines, pools = cells[:3]
    least = [int(many) for many in cells[5].split(",")]
    blocks = [[int(size) for size in spine.split(",")] for spine in spines.split(";")]
    sizes = [int(size) for size in pools.split(",")]
    found, bound = solve(blocks, sizes, least, sys.argv[1] if len(sys.argv) > 1 else 600)
    print(name, spines, pools, found, bound, cells[5], flush=True)
