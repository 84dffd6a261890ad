#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The all-to-all in simulation. usage: simulated_test.py SMPIRUN SIMULATED_SO PLATFORM_SO small|sweep
small: 32 ranks, contents checked. sweep: 32 and 128 ranks, orderings and ratios."""
import sys
import unittest

import sweep

SIMULATOR = None


class Small(unittest.TestCase):
    def test_contents_are_right_on_every_machine(self):
        for machine in sweep.MACHINES:
            rows = SIMULATOR.pairs(machine, 4, [100, 4096], [*sweep.OURS, "vendor"], check=True)
            self.assertEqual(len(rows), 2 * 5)
            rows = SIMULATOR.moe(machine, 4, [1024], ["vendor", "flat", "node_dedup"], experts=64,
                                 limit=2, check=True)
            self.assertEqual(len(rows), 3)

    def test_the_same_every_time_and_far_from_pairwise(self):
        first = SIMULATOR.pairs("frontier", 4, [256], sweep.OURS)
        self.assertEqual(first, SIMULATOR.pairs("frontier", 4, [256], sweep.OURS))
        pairwise = SIMULATOR.pairs("frontier", 4, [256], ["vendor"],
                                   settings={"smpi/alltoallv": "pair"})
        self.assertGreater(pairwise[0][2] / min(us for _, _, us in first), 3.0)

    def test_a_token_that_crosses_once_saves_its_bytes(self):
        rows = dict((name, us) for name, _, us in SIMULATOR.moe(
            "ethernet", 4, [16384], ["flat", "node_dedup"], limit=2))
        # 6 rows a token between nodes against 1.5.
        self.assertGreater(rows["flat"] / rows["node_dedup"], 2.0)


    def test_the_choice_is_near_the_best_of_ours_and_the_vendors(self):
        table = sweep.plain(SIMULATOR, "frontier", 4, [256, 16384])
        self.assertEqual(sorted(table), [256, 16384])
        for row in table.values():
            self.assertEqual(len(row), 4 + 1 + 1 + 2 * len(sweep.VENDORS))
            _, best = sweep.best(row, lambda name: True)
            self.assertLess(sweep.choice(row)[1] / best, 1.03)

    def test_few_messages_in_flight_move_the_same(self):
        names = ["flat/2", "rail/1", "node_dedup/2"]
        self.assertEqual(len(SIMULATOR.pairs("ethernet", 4, [4096], names[:2], check=True)), 2)
        self.assertEqual(len(SIMULATOR.moe("ethernet", 4, [4096], names[::2], experts=64, limit=2,
                                           groups=1, check=True)), 2)

    def test_what_does_not_end_in_time_is_ended(self):
        hurried = sweep.Simulator(SIMULATOR.smpirun, SIMULATOR.program, SIMULATOR.platform, 0.2)
        self.assertEqual(hurried.pairs("frontier", 16, [262144], ["flat"]), [])


class Sweep(unittest.TestCase):
    def test_ours_against_pairwise_at_32_and_128_ranks(self):
        for machine, sizes in (("frontier", [256, 4096]), ("h100", [256, 4096]),
                               ("ethernet", [256])):
            for nodes in (4, 16):
                table = {}
                sweep.collect(SIMULATOR.pairs(machine, nodes, sizes, ["node", "rail", "node_pair"]),
                              table)
                sweep.collect(SIMULATOR.pairs(machine, nodes, sizes, ["vendor"],
                                              settings={"smpi/alltoallv": "pair"}), table,
                              "pairwise:")
                for size in sizes:
                    with self.subTest(machine=machine, nodes=nodes, bytes=size):
                        _, ours = sweep.best(table[size], lambda name: name in sweep.OURS)
                        self.assertGreater(table[size]["pairwise:vendor"] / ours, 3.0)


def main():
    global SIMULATOR
    SIMULATOR = sweep.Simulator(*sys.argv[1:4])
    case = {"small": Small, "sweep": Sweep}[sys.argv[4]]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
