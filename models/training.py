"""Training: AdamW, warm-up and decay, clipping, micro-batches of similar lengths ([C2D] appendix B).

The strings of a step depend on the seed and the step's number alone, so a resumed run needs no generator state and
continues to bit-identical weights.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from models.config import Recipe, TrainSettings
from models.device import pick_device
from models.errors import TrainingDiverged, UsageError
from models.evaluation import Score, evaluate
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer, build_model

MAX_RECORDS = 1000  # a run writes about this many, however long it is
CPU_MICRO_BATCH = 16  # strings; measured fastest at the bench shape


@dataclass(frozen=True)
class Record:
    """Progress after one step.

    Attributes:
        step: optimiser steps done.
        loss: mean cross-entropy of the step's scored tokens, nats.
        tokens_per_second: real tokens, padding not counted, since the last record.
        learning_rate: of this step.
        grad_norm: before clipping.
        seconds: spent training so far, evaluations not counted.
        evaluation: scores at this step, where there was an evaluation.
    """

    step: int
    loss: float
    tokens_per_second: float
    learning_rate: float
    grad_norm: float
    seconds: float
    evaluation: tuple[Score, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; without `evaluation` where there was none."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "evaluation"}
        if self.evaluation is not None:
            values["evaluation"] = [score.as_dict() for score in self.evaluation]
        return values


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Learning rate of step 1..steps: linear warm-up, then cosine, warm-up-stable-decay, or constant."""
    peak, final = settings.learning_rate, settings.final_learning_rate
    if step <= settings.warmup:
        return peak * step / settings.warmup
    if settings.schedule == "constant":
        return peak
    if settings.schedule == "wsd":
        decay = max(1, round(settings.decay_fraction * settings.steps))
        done = max(0.0, (step - (settings.steps - decay)) / decay)
        return peak + (final - peak) * done
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * done))


class Trainer:
    """Trains one recipe.

    Attributes:
        recipe, device, model, task: what is trained, and where.
        step: optimiser steps done.
    """

    def __init__(self, recipe: Recipe, device: str = "auto", state: dict[str, Tensor] | None = None) -> None:
        self.recipe = recipe
        self.device = pick_device(device)
        self.task = CopyTask(recipe.task)
        self.model: CopyTransformer = build_model(recipe, self.device)
        self.optimizer = _optimizer(self.model, recipe.train)
        self.step = 0
        self._seconds = 0.0
        self._forward = torch.compile(self.model) if recipe.train.compile else self.model
        own_cores = self.device.type == "cpu" and not recipe.train.compile  # compiling is not safe in threads
        self._pool = ThreadPoolExecutor(torch.get_num_threads()) if own_cores else None
        if state is not None:
            self._load(state)

    def run(self) -> Iterator[Record]:
        """Train to `recipe.train.steps`, yielding a record wherever one is due.

        Between two records `state()` is that of the last whole step. An exception raised from outside while a step
        runs (Ctrl-C) can fall between the weights' update and the count: catch the signal and stop at a record.

        Raises:
            TrainingDiverged: the loss or a gradient is not finite; the message names the step and where it began.
        """
        train = self.recipe.train
        every = max(1, math.ceil(train.steps / MAX_RECORDS))
        tokens, since = 0, time.perf_counter()
        while self.step < train.steps:
            generator = torch.Generator().manual_seed(step_seed(self.recipe.seed, self.step + 1))
            batches = [self.task.sample(train.batch_size, generator) for _ in range(train.accumulation)]
            loss, norm, seen = self.train_on(batches)
            tokens += seen
            evaluating = self._due(train.evaluate_every)
            if self.step % every == 0 or evaluating or self.checkpoint_due():
                elapsed = time.perf_counter() - since
                self._seconds += elapsed
                rate = tokens / elapsed
                scores = self._evaluate() if evaluating else None
                yield Record(
                    self.step, loss, rate, learning_rate(train, self.step), norm, round(self._seconds, 3), scores
                )
                tokens, since = 0, time.perf_counter()

    def checkpoint_due(self) -> bool:
        """Is `step` one at which a checkpoint is kept."""
        return self._due(self.recipe.train.checkpoint_every)

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights on the CPU, by parameter name."""
        return {name: weight.detach().to("cpu", copy=True) for name, weight in self.model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """Everything a later Trainer needs to continue: weights, optimiser moments, step, seconds."""
        state = {f"weights.{name}": weight for name, weight in self.weights().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                state[f"optimizer.{name}.{key}"] = value.detach().to("cpu", copy=True)
        state["step"] = torch.tensor(self.step)
        state["seconds"] = torch.tensor(self._seconds, dtype=torch.float64)
        return state

    def _load(self, state: dict[str, Tensor]) -> None:
        try:
            load_weights(
                self.model, {k.removeprefix("weights."): v for k, v in state.items() if k.startswith("weights.")}
            )
            for name, parameter in self.model.named_parameters():
                prefix = f"optimizer.{name}."
                moments = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
                for key, value in moments.items():
                    device = "cpu" if key == "step" and self.device.type == "cpu" else self.device
                    self.optimizer.state[parameter][key] = value.clone().to(device)
            self.step = int(state["step"])
            self._seconds = float(state["seconds"])
        except KeyError as error:
            raise UsageError(f"the checkpoint lacks {error.args[0]!r}; resume from another one or train anew") from None

    def _due(self, every: int) -> bool:
        return self.step == self.recipe.train.steps or (every > 0 and self.step % every == 0)

    def train_on(self, batches: Sequence[CopyBatch]) -> tuple[float, float, int]:
        """One optimiser step on the batches given; returns loss, gradient norm and the number of real tokens.

        Raises TrainingDiverged, and changes nothing, where the loss or a gradient is not finite.
        """
        train, step = self.recipe.train, self.step + 1
        total_weight = float(sum(batch.lengths.sum() + (sum(train.edge_weights) - 1) * len(batch) for batch in batches))
        parts = [part for batch in batches for part in micro_batches(batch, self._micro_batch(len(batch)))]
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(train, step)
        with self._shared_cores(len(parts)) as each:
            total = torch.zeros((), device=self.device)
            for loss, gradients in each(partial(self._gradients, total_weight=total_weight), parts):
                total += loss
                for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
                    if gradient is None:
                        continue
                    if parameter.grad is None:  # laid out as the weight, which the fused optimiser takes for granted
                        parameter.grad = torch.zeros_like(parameter)
                    parameter.grad += gradient
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), train.clip)
            loss_value, norm_value = float(total), float(norm)
            finite = math.isfinite(loss_value) and math.isfinite(norm_value)
            if finite:
                self.optimizer.step()
        if not finite:
            where = find_non_finite(self.model, batches[0])
            self.optimizer.zero_grad(set_to_none=True)
            raise TrainingDiverged(
                f"training diverged at step {step}: loss {loss_value}, gradient norm {norm_value}, first not finite at "
                f"{where}; the last checkpoint is kept. Lower train.learning_rate ({train.learning_rate}) or "
                f"raise train.warmup ({train.warmup})"
            )
        self.step = step
        return loss_value, norm_value, sum(int((~batch.pad_mask).sum()) for batch in batches)

    def _gradients(self, part: CopyBatch, total_weight: float) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """Share of one micro-batch in the loss, and its gradient by every parameter."""
        with self._autocast():
            loss = self._summed_loss(part) / total_weight
        return loss.detach(), torch.autograd.grad(loss, list(self.model.parameters()), allow_unused=True)

    @contextmanager
    def _shared_cores(self, parts: int) -> Iterator[Callable[..., Iterator[Any]]]:
        """Hand out a `map` under which micro-batches share out the cores of the CPU; results come in order.

        Most kernels of a micro-batch are too small to be split between cores, so each core takes micro-batches of its
        own. Sums are taken in the order of the micro-batches, whichever is ready first.
        """
        cores = torch.get_num_threads()
        workers = min(cores, parts)
        if self._pool is None or workers == 1:
            yield map
            return
        pool, threads = self._pool, cores // workers

        def each(work: Callable[[CopyBatch], Any], batches: list[CopyBatch]) -> Iterator[Any]:
            def work_alone(batch: CopyBatch) -> Any:
                torch.set_num_threads(threads)  # a number that each thread has of its own
                return work(batch)

            return pool.map(work_alone, batches)

        torch.set_num_threads(threads)
        try:
            yield each
        finally:
            torch.set_num_threads(cores)

    def _summed_loss(self, batch: CopyBatch) -> Tensor:
        """Cross-entropy summed over the scored tokens, the first of a string and EOS weighted."""
        rows, exists = batch.scored_rows
        pad_mask = batch.pad_mask.to(self.device)
        logits = self._forward(batch.tokens, rows=rows.to(self.device), keep=exists.to(self.device), pad_mask=pad_mask)
        targets = batch.targets[batch.loss_mask].to(self.device)
        losses = torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")
        eos = (batch.lengths + 1).cumsum(0).to(self.device) - 1  # where each string ends among the scored tokens
        first, last = self.recipe.train.edge_weights
        at_first = losses[0] + losses[eos[:-1] + 1].sum()
        return losses.sum() + (first - 1) * at_first + (last - 1) * losses[eos].sum()

    def _micro_batch(self, batch_size: int) -> int:
        return self.recipe.train.micro_batch or (CPU_MICRO_BATCH if self.device.type == "cpu" else batch_size)

    def _autocast(self) -> AbstractContextManager:
        if self.recipe.train.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _evaluate(self) -> tuple[Score, ...]:
        longest = self.recipe.task.lengths[1]
        return tuple(
            evaluate(
                self.model,
                self.task,
                intervals=[self.recipe.task.lengths, (2 * longest, 2 * longest)],
                distributions=[self.recipe.task.distribution],
                strings=self.recipe.train.evaluation_strings,
                seed=self.recipe.seed,
            )
        )


def step_seed(seed: int, step: int) -> int:
    """Seed of the strings of one step, different for every (seed, step) below 2^32 and 2^31."""
    return (seed << 31) + step


def micro_batches(batch: CopyBatch, size: int) -> Iterator[CopyBatch]:
    """Cut a batch into parts of about equally many tokens, `size` strings on average, the longest strings first.

    Strings of a part have similar lengths, so that hardly any padding is computed, and parts take similar time.
    """
    order = batch.lengths.argsort(stable=True, descending=True)
    tokens = (~batch.pad_mask).sum(1)[order]
    parts = math.ceil(len(batch) / size)
    middle = tokens.cumsum(0) - tokens / 2
    for rows in order.split((middle / tokens.sum() * parts).long().bincount().tolist()):
        if len(rows):
            yield batch.select(rows)


def load_weights(model: CopyTransformer, weights: dict[str, Tensor]) -> None:
    """Copy `weights` into the model.

    Raises:
        UsageError: a weight is missing, unknown, or of another shape than the model's.
    """
    own = dict(model.named_parameters())
    wrong = sorted(own.keys() ^ weights.keys())
    if wrong:
        raise UsageError(
            f"weights do not fit the model: {', '.join(wrong[:3])} missing or unknown; was the config changed?"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != weights[name].shape:
                raise UsageError(
                    f"weight {name} has shape {tuple(weights[name].shape)}, the model expects "
                    f"{tuple(parameter.shape)}; was the config changed?"
                )
            parameter.copy_(weights[name])


def find_non_finite(model: CopyTransformer, batch: CopyBatch) -> str:
    """Return the first thing that is not finite: a weight, an activation in forward order, or a gradient."""
    for name, weight in model.named_parameters():
        if not bool(weight.isfinite().all()):
            return f"weight {name}"
    found: list[str] = []

    def look(tensor: Tensor, hook: HookPoint) -> None:
        if not found and tensor.is_floating_point() and bool((tensor.isnan() | (tensor == math.inf)).any()):
            found.append(f"activation {hook.name}")

    names = [name for name in model.hook_dict if "scores" not in name and "pattern" not in name]
    with torch.inference_mode():
        model.run_with_hooks(batch.tokens, pad_mask=batch.pad_mask, fwd_hooks=[(name, look) for name in names])
    if found:
        return found[0]
    for name, weight in model.named_parameters():
        if weight.grad is not None and not bool(weight.grad.isfinite().all()):
            return f"the gradient of {name}"
    return "the loss"


def _optimizer(model: CopyTransformer, train: TrainSettings) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only; Auto-2D's step projection counts as one."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": train.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    fused = next(iter(parameters)).device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=train.learning_rate, betas=train.betas, eps=train.epsilon, fused=fused)
