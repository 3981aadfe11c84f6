"""rtrain trains PyTorch models on many machines. Training scripts use `rtrain.train`.

Submodules are loaded at their first use, so that `import rtrain` is quick and imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names

if TYPE_CHECKING:
    from rtrain import (
        actor as actor,
        air as air,
        autoscaler as autoscaler,
        data as data,
        exceptions as exceptions,
        integrations as integrations,
        job_submission as job_submission,
        runtime_context as runtime_context,
        train as train,
        tune as tune,
        util as util,
    )
    from rtrain._cluster._context import get_runtime_context as get_runtime_context
    from rtrain._cluster._not_there import (
        ActorID as ActorID,
        ClientBuilder as ClientBuilder,
        FunctionID as FunctionID,
        JobID as JobID,
        Language as Language,
        LoggingConfig as LoggingConfig,
        NodeID as NodeID,
        ObjectID as ObjectID,
        PlacementGroupID as PlacementGroupID,
        TaskID as TaskID,
        UniqueID as UniqueID,
        WorkerID as WorkerID,
        client as client,
        cpp_function as cpp_function,
        get_dashboard_url as get_dashboard_url,
        java_actor_class as java_actor_class,
        java_function as java_function,
        timeline as timeline,
    )
    from rtrain._cluster._view import (
        available_resources as available_resources,
        cluster_resources as cluster_resources,
        get_gpu_ids as get_gpu_ids,
        nodes as nodes,
    )
    from rtrain._remote._actors._names import get_actor as get_actor
    from rtrain._remote._api import (
        kill as kill,
        remote as remote,
    )
    from rtrain._remote._generator import ObjectRefGenerator as ObjectRefGenerator
    from rtrain._remote._methods import method as method
    from rtrain._remote._pools._start import cancel as cancel
    from rtrain._remote._refs import (
        ObjectRef as ObjectRef,
        get as get,
        put as put,
        wait as wait,
    )
    from rtrain._where import (
        init as init,
        is_initialized as is_initialized,
        shutdown as shutdown,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
    __all__ += ["__version__", "train", "tune"]

__version__ = "0.1.0"
