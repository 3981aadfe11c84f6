"""A small GPT: tokens are bytes, blocks are pre-norm, attention is torch's own."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 256  # bytes


@dataclass(frozen=True)
class Config:
    """The content of a file such as tiny.json: the model's size and the training parameters."""

    layers: int
    heads: int
    width: int
    context: int
    batch: int  # sequences per worker and step
    learning_rate: float

    @classmethod
    def read(cls, path: str | pathlib.Path) -> Config:
        return cls(**json.loads(pathlib.Path(path).read_text()))


class Block(nn.Module):
    """Causal attention, then a feed-forward layer per token. FSDP2 shards each block separately. Rows of `qkv` are grouped by
    head, so tensor parallelism may give each rank the rows of whole heads.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_width = config.width // config.heads
        self.before_attention, self.before_mlp = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        split = self.qkv(self.before_attention(x)).view(batch, length, -1, 3, self.head_width)  # -1: this rank's heads
        q, k, v = split.permute(3, 0, 2, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, -1))
        changed: torch.Tensor = x + self.mlp(self.before_mlp(x))
        return changed


class GPT(nn.Module):
    """Logits of the next byte, at each place of (batch, length) bytes."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits
