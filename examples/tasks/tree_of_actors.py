"""A tree of actors: each node makes its children, and the sum of all leaves comes up the tree."""

import asyncio

import rtrain


class Branch:
    """Holds two subtrees, or a leaf's value. Its handles of the children are sent to whoever asks for them."""

    def __init__(self, depth: int, number: int) -> None:
        self.number = number
        self.children = [Node.remote(depth - 1, 2 * number + side) for side in range(2)] if depth else []

    async def total(self) -> int:
        if not self.children:
            return self.number
        return sum(await asyncio.gather(*[child.total.remote() for child in self.children]))

    async def leaves(self) -> list[rtrain.actor.ActorHandle]:
        if not self.children:
            return [rtrain.get_runtime_context().current_actor]
        below = await asyncio.gather(*[child.leaves.remote() for child in self.children])
        return [leaf for leaves in below for leaf in leaves]


Node = rtrain.remote(Branch)

if __name__ == "__main__":
    rtrain.init()
    root = Node.remote(2, 1)
    total = rtrain.get(root.total.remote())
    leaves = rtrain.get(root.leaves.remote())
    print(f"{len(leaves)} leaves, total {total}, {[rtrain.get(leaf.total.remote()) for leaf in leaves]}")
