"""Optimiser steps a second against two baselines, and the share of the machine's matrix-product rate.

All three train on the same strings in the same order: ours in micro-batches of similar lengths that share out the
cores, the baselines in one batch padded to its longest string, as a plain training loop does.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import Recipe
from models.distributions import DISTRIBUTIONS
from models.tasks import IGNORE, CopyBatch, CopyTask
from models.training import Trainer
from workbench.bench import Measurement

ROUNDS, STEPS = 5, 6
SHAPE = {
    "task": {"lengths": [1, 100]},
    "model": {"heads": [2], "d_head": 64, "d_model": 128, "positions": "rope2d"},
    "train": {"steps": 10_000, "batch_size": 64},
}


def gemm_rate(size: int = 1024, seconds: float = 0.5) -> float:
    """FLOP/s of a square float32 matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def measure_tasks() -> Iterator[Measurement]:
    """Milliseconds to draw and lay out 64 strings of length 100."""
    task = CopyTask(Recipe.model_validate(SHAPE).task)
    for name in DISTRIBUTIONS:
        generator = torch.Generator().manual_seed(0)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            task.sample(64, generator, lengths=100, distribution=name)
            times.append(time.perf_counter() - start)
        yield Measurement(f"task.draw.{name}", median(times) * 1e3, "ms for 64 x 100", better="lower", target=5.0)


def measure_training(rate: float) -> Iterator[Measurement]:
    """Steps a second of 2D-RoPE at the bench shape, interleaved with the baselines so that all see the same machine."""
    trainer = Trainer(Recipe.model_validate(SHAPE), "cpu")
    strings = torch.Generator().manual_seed(1)
    batches = [trainer.task.sample(64, strings) for _ in range(STEPS)]
    runners = {
        "ours": lambda: [trainer.train_on([batch]) for batch in batches],
        "boot_native": _runner(_boot_native(trainer), batches),
        "plain": _runner(PlainModel(trainer.model.cfg.d_vocab), batches),
    }
    times: dict[str, list[float]] = {name: [] for name in runners}
    for round_ in range(ROUNDS + 1):
        for name, step in runners.items():
            start = time.perf_counter()
            step()
            if round_:
                times[name].append((time.perf_counter() - start) / STEPS)
    speed = {name: 1 / median(values) for name, values in times.items()}
    for name, target, against in (
        ("boot_native", 3.0, "TransformerLens boot_native, rotary, same shape, padded batch"),
        ("plain", 2.0, "plain SDPA model, rotary, same shape, padded batch"),
    ):
        ratio = speed["ours"] / speed[name]
        yield Measurement("train.rope2d", speed["ours"], "steps/s", speed[name], ratio, target=target, against=against)
    flops = sum(_flops(trainer, batch) for batch in batches) / len(batches)
    yield Measurement(
        "train.rope2d.gemm_share",
        flops * speed["ours"] / rate,
        "share of the GEMM rate",
        against="necessary multiply-adds of real tokens, forward and backward",
    )


def _flops(trainer: Trainer, batch: CopyBatch) -> float:
    """Floating-point operations a step cannot do without: 2 a multiply-add, 3 passes, scored rows on the query side.

    Queries, keys and values of the first layer depend on the token alone: one projection a token of the vocabulary.
    """
    cfg = trainer.model.cfg
    scored = int(batch.loss_mask.sum())
    width = cfg.n_heads * cfg.d_head
    projections = cfg.d_vocab * 3 * cfg.d_model * width
    after = scored * (cfg.d_model * width + 2 * cfg.d_model * (cfg.d_mlp or 0) + cfg.d_model * cfg.d_vocab)
    n = batch.lengths.double()
    pairs = float(((n + 1) * (1.5 * n + trainer.task.settings.a + trainer.task.settings.b)).sum())
    return 6 * (projections + after + 2 * width * pairs)


def _runner(model: nn.Module, batches: list[CopyBatch]) -> Callable[[], None]:
    """A plain loop: one padded batch, all logits, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)

    def steps() -> None:
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            logits = model(batch.tokens)
            F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return steps


def _boot_native(trainer: Trainer) -> nn.Module:
    """TransformerLens' own small rotary model of the same shape."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.sources import boot_native

    cfg = trainer.model.cfg
    bridge: TransformerBridge = boot_native(
        {
            "n_layers": cfg.n_layers,
            "n_heads": cfg.n_heads,
            "d_model": cfg.d_model,
            "d_head": cfg.d_head,
            "d_mlp": cfg.d_mlp,
            "d_vocab": cfg.d_vocab,
            "n_ctx": 512,
            "act_fn": "gelu",
            "normalization_type": "RMS",
            "positional_embedding_type": "rotary",
            "rotary_dim": cfg.d_head,
            "seed": 0,
        }
    )
    bridge.train()
    return bridge


class PlainModel(nn.Module):
    """One plain layer: nn.Linear, rotate-half RoPE, scaled_dot_product_attention, GELU MLP."""

    def __init__(self, d_vocab: int, d_model: int = 128, heads: int = 2, d_head: int = 64) -> None:
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.embed = nn.Embedding(d_vocab, d_model)
        self.norm1, self.norm2, self.norm3 = nn.RMSNorm(d_model), nn.RMSNorm(d_model), nn.RMSNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * heads * d_head, bias=False)
        self.out = nn.Linear(heads * d_head, d_model, bias=False)
        self.up, self.down = nn.Linear(d_model, 4 * d_model, bias=False), nn.Linear(4 * d_model, d_model, bias=False)
        self.unembed = nn.Linear(d_model, d_vocab, bias=False)
        angles = torch.arange(512)[:, None] * 10_000.0 ** (-torch.arange(d_head // 2) / (d_head // 2))
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", torch.cat([angles, angles], dim=-1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], dim=-1).sin())

    def _rotate(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cos[: x.shape[-2]] + torch.cat([-second, first], dim=-1) * self.sin[: x.shape[-2]]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, V]."""
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, self.d_head)).permute(2, 0, 3, 1, 4)
        z = F.scaled_dot_product_attention(self._rotate(q), self._rotate(k), v, is_causal=True)
        x = x + self.out(z.transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.unembed(self.norm3(x))
