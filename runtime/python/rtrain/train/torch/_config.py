"""The settings of the ranks' process group."""

import dataclasses

from rtrain._lazy import public_in
from rtrain.train.backend import BackendConfig

_BACKENDS = ("auto", "nccl", "gloo")


@dataclasses.dataclass
class TorchConfig(BackendConfig):
    """The settings of the ranks' process group.

    backend: "nccl", "gloo", any other name that `torch.distributed` knows ("mpi", "cpu:gloo,cuda:nccl"), or None:
    nccl with GPUs, gloo without.
    init_method: "env" (MASTER_ADDR and MASTER_PORT) or "tcp" (the same address, given as a URL).
    timeout_s: time limit of a collective, in seconds.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.backend is not None and (not isinstance(self.backend, str) or not self.backend):
            raise ValueError(f"TorchConfig(backend={self.backend!r}): use None (automatic) or a name such as {_BACKENDS[1:]}")
        if self.init_method not in ("env", "tcp"):
            raise ValueError(
                f"TorchConfig(init_method={self.init_method!r}): use 'env' (MASTER_ADDR and MASTER_PORT) or 'tcp' (the "
                "same address as a URL)"
            )
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float) or self.timeout_s <= 0:
            raise ValueError(f"TorchConfig(timeout_s={self.timeout_s!r}): a number of seconds above 0 is needed")


public_in("rtrain.train.torch", TorchConfig)
