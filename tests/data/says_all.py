"""Ranks that take part in collectives and report. The last one raises an error. make_messages.py records their messages."""

from rtrain import train

rank = train.get_context().get_world_rank()
assert train.collective.broadcast_from_rank_zero(f"from rank {rank}") == "from rank 0"
train.collective.barrier()
for step in range(3):
    train.report({"step": step, "text": "\N{SNOWMAN}"})
if rank == 1:
    raise RuntimeError("the loss is not a number")
