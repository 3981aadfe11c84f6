"""An actor and a function that live on a GPU."""


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
        """Made on the GPU; the caller gets it on the CPU. With the device on which it was made."""
        import torch
        from rtrain.train.torch import get_device

        square = torch.full((side, side), 2.0, device=get_device())
        return square @ square, get_device().type


def doubled(tensor):
    """A function's argument comes from the caller's CPU, and goes back from this GPU."""
    from rtrain.train.torch import get_device

    return tensor.to(get_device()) * 2
