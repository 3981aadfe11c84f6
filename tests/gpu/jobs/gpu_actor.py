"""An actor and a function that run on a GPU."""


class Holder:
    """Holds a tensor of `count` bytes on its GPU."""

    def __init__(self, count):
        import worker_devices

        self.kept = worker_devices.hold(count)

    def uuids(self):
        import worker_devices

        return worker_devices.uuids()

    def assigned(self):
        import worker_devices

        return worker_devices.assigned()

    def product(self, side):
        """Returns a product made on the GPU, which the caller gets on the CPU, and the device on which it was made."""
        import torch
        from rtrain.train.torch import get_device

        square = torch.full((side, side), 2.0, device=get_device())
        return square @ square, get_device().type


def doubled(tensor):
    """Moves the argument from the caller's CPU to this GPU, and returns the result to the CPU."""
    from rtrain.train.torch import get_device

    return tensor.to(get_device()) * 2
