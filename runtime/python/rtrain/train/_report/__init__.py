"""The steps of a report, from the loop's call to the agent. `_check` validates it, `_place` finds the place of its
files, `_bring` stages them there, `_commit` sends it to the agent.

`_reports` runs these steps for a rank of a cluster. In local mode the session runs them itself.
"""
