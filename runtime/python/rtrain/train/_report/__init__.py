"""A report, from the loop's call to the agent: `_check` refuses it, `_place` says where its files lie, `_bring` brings them there, `_commit` makes it.

`_reports` leads a report of a cluster's rank through these; local mode's session does so for its own."""
