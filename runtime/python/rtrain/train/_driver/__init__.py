"""The driver of a run: its way from a trainer to the head, and what is shown, raised and returned when it goes on and ends.

`_submission` sends a run, `_follower` follows it, `_outcome` makes its Result; `_restore` is the way back."""
