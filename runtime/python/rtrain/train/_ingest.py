"""Options of Ray Data's engine, for scripts that set them: `DataConfig.default_ingest_options()`. Nothing reads them here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ExecutionResources:
    cpu: float | None = None
    gpu: float | None = None
    memory: float | None = None
    object_store_memory: float | None = None


@dataclass
class ExecutionOptions:
    resource_limits: ExecutionResources = field(default_factory=ExecutionResources)
    exclude_resources: ExecutionResources = field(default_factory=ExecutionResources)
    locality_with_output: bool | list[str] = False
    preserve_order: bool = False
    verbose_progress: bool = True
