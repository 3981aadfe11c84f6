"""Serves calls of remote functions by pools of workers, each of which executes many calls. Decisions are in `_plan.py`, which is
pure. See docs/decisions/0076-calls-are-served-by-pools.md.

    .remote() ──► Pool: queue ──► Plan.decide() ──► calls to workers, in order, few ahead
                    ▲                          ├──► runs that start (demand) and end (idleness)
                    └── lost, taken back ──────┘
"""
