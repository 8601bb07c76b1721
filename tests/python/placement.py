"""The least cost of crossings of the problems in src/fabric/tests/middle.txt, found by HiGHS.

    pip install highspy
    python tests/python/placement.py < src/fabric/tests/middle.txt

One line a problem: a seed, the blocks of each spine with their hosts, the pools with their sizes. One more spine
costs a pool 2 and one more block 1, as in the test that holds the answers. Nothing of the program needs this.
"""

import sys

import highspy


def solve(spines, pools, seconds):
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("time_limit", float(seconds))
    blocks = [(spine, size) for spine, sizes in enumerate(spines) for size in sizes]
    terms = []
    load = [[] for _ in blocks]
    for nodes in pools:
        opened = [model.addBinary() for _ in spines]
        takes = []
        for block, (spine, size) in enumerate(blocks):
            most = min(nodes, size)
            take = model.addIntegral(lb=0, ub=most)
            used = model.addBinary()
            model.addConstr(take <= most * used)
            model.addConstr(used <= opened[spine])
            takes.append(take)
            terms.append(used)
            load[block].append(take)
        model.addConstr(sum(takes) == nodes)
        terms.extend(2 * one for one in opened)
    for (_, size), taken in zip(blocks, load):
        model.addConstr(sum(taken) <= size)
    model.minimize(sum(terms))
    first = 3 * len(pools)
    info = model.getInfo()
    return round(info.objective_function_value) - first, info.mip_dual_bound - first


for line in sys.stdin:
    seed, spines, pools = line.split()
    spines = [[int(size) for size in spine.split(",")] for spine in spines.split(";")]
    found, bound = solve(spines, [int(size) for size in pools.split(",")], sys.argv[1] if len(sys.argv) > 1 else 600)
    print(seed, found, f"(not below {bound:.2f})", flush=True)
