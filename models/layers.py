"""Attention and MLP of a decoder block, with TransformerLens' hook and weight names.

Attention takes one of two paths with one result. While nothing is hooked on its scores or pattern it calls
`scaled_dot_product_attention`, in O(T) memory; otherwise it computes the pattern explicitly.

Shape letters: B batch, T tokens, R queried rows, H heads, D model width, E head width, M MLP width.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.masks import Visibility
from models.norm import Norm, hooked
from models.positions import Places, Scheme, rotate

# Which query rows are wanted: positions of every string, or one range for all of them.
Rows = Int[Tensor, "B R"] | range

# Added to the scores, [B or 1, H, Q, K], given query positions (long[Q] or long[B, Q]) and key positions (long[K]).
Bias = Callable[[Tensor, Tensor], Tensor]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}

# Largest mask or bias (elements) that the fast path builds at once; longer inputs go through in blocks of queries.
BLOCK_ELEMENTS = 1 << 24


class Attention(nn.Module):
    """Multi-head attention that is handed a positional scheme.

    Layers may have fewer heads than the widest layer: weights and activations are padded to H with zero heads
    (`n_real` says how many are real), so that tools which expect equal heads stay right; they attend to nothing.

    Attributes:
        W_Q, W_K, W_V: [H, D, E]; W_O: [H, E, D].
        scheme: the layer's positional scheme.
        hook_q, hook_k, hook_v, hook_z, hook_rot_q, hook_rot_k: [B, T, H, E]; the rotated ones fire for every scheme.
        hook_attn_scores, hook_pattern: [B, H, T, T], before and after the softmax; masked scores are -inf.
        hook_result: [B, T, H, D]; hook_q_input, hook_k_input, hook_v_input, hook_attn_in: [B, T, H, D] before the norm.
        hook_coords: [B, T, 1] index or [B, T, 2] (row, column), where the scheme has coordinates in this layer.
        hook_step: [B, T, 2] (u, v), where the scheme learns steps.
    """

    hook_q: HookPoint
    hook_k: HookPoint
    hook_v: HookPoint
    hook_z: HookPoint
    hook_rot_q: HookPoint
    hook_rot_k: HookPoint
    hook_attn_scores: HookPoint
    hook_pattern: HookPoint
    hook_result: HookPoint
    hook_q_input: HookPoint
    hook_k_input: HookPoint
    hook_v_input: HookPoint
    hook_attn_in: HookPoint
    hook_coords: HookPoint
    hook_step: HookPoint

    def __init__(
        self, scheme: Scheme, *, d_model: int, d_head: int, n_heads: int, n_real: int, strict: bool, scale: float
    ) -> None:
        super().__init__()
        self.scheme = scheme
        self.n_heads, self.n_real, self.d_head, self.strict, self.scale = n_heads, n_real, d_head, strict, scale
        self.W_Q = nn.Parameter(torch.zeros(n_heads, d_model, d_head))
        self.W_K = nn.Parameter(torch.zeros(n_heads, d_model, d_head))
        self.W_V = nn.Parameter(torch.zeros(n_heads, d_model, d_head))
        self.W_O = nn.Parameter(torch.zeros(n_heads, d_head, d_model))
        by_token = ["q", "k", "v", "z", "rot_q", "rot_k", "result", "q_input", "k_input", "v_input", "attn_in"]
        for name in by_token:
            self._point(f"hook_{name}", pos_dim=1)
        self._point("hook_attn_scores", pos_dim=2)
        self._point("hook_pattern", pos_dim=2)
        if scheme.n_coords and not scheme.at_embedding:
            self._point("hook_coords", pos_dim=1)
        if scheme.learns_steps:
            self._point("hook_step", pos_dim=1)

    def _point(self, name: str, pos_dim: int) -> None:
        point = HookPoint()
        point.pos_dim = pos_dim
        setattr(self, name, point)

    def forward(
        self,
        resid: Float[Tensor, "B T D"],
        norm: Norm,
        places: Places,
        rows: Rows | None = None,
        by_token: bool = False,
    ) -> Float[Tensor, "B R D"]:
        """What the layer's heads add to the residual stream.

        Args:
            resid: the stream before the norm.
            norm: applied to `resid` (a Norm of kind "none" where the block has no norm before attention).
            places: tokens and padding, for coordinates and the mask.
            rows: query positions that are needed; None for all. Only the query side is cut.
            by_token: `resid` is [1, V, D], the stream of every token of the vocabulary, and stands for [B, T, D].
                Everything up to the rotation is then computed once a token of the vocabulary and looked up.
        """
        # Few rows are cut before attention; many are cheaper in one causal call and cut after it.
        cut_late = isinstance(rows, Tensor) and rows.numel() * places.tokens.shape[1] > BLOCK_ELEMENTS
        late_rows, rows = (rows, None) if cut_late else (None, rows)
        normed = norm(resid)
        coords = self._coordinates(resid, normed, places, by_token)
        q_in, k_in, v_in = self._inputs(resid, normed, norm)
        if by_token:
            tokens = places.tokens
            q = look_up(_project(q_in, self.W_Q), tokens if rows is None else take_rows(tokens, rows))
            k, v = look_up(_project(k_in, self.W_K), tokens), look_up(_project(v_in, self.W_V), tokens)
        else:
            q = _project(q_in if rows is None else take_rows(q_in, rows), self.W_Q)
            k, v = _project(k_in, self.W_K), _project(v_in, self.W_V)
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)

        factors = None
        if coords is not None:
            factors = self.scheme.rotation(coords, whole=not (self.scheme.learns_steps or hooked(self.hook_coords)))
        if factors is not None:
            k = rotate(k, factors)
            q = rotate(q, factors if rows is None else take_rows(factors, rows))
        q, k = self.hook_rot_q(q), self.hook_rot_k(k)

        visible = Visibility(places.pad_mask, self.strict, self.scheme.settings.window)
        bias = self._bias(coords) if coords is not None and self.scheme.has_bias else None
        if hooked(self.hook_attn_scores, self.hook_pattern):
            z = self._explicit(q, k, v, visible, bias)
        else:
            z = fast_attention(q, k, v, visible, self.scale, bias, rows)
        z = self.hook_z(z)
        return self._write(z if late_rows is None else take_rows(z, late_rows))

    def _coordinates(self, resid: Tensor, normed: Tensor, places: Places, by_token: bool) -> Tensor | None:
        """Coordinates through the hooks, float32[B or 1, T, C], or None where attention itself has no positions."""
        if not self.scheme.n_coords or self.scheme.at_embedding:
            return None
        steps = None
        if self.scheme.learns_steps:
            steps = self.scheme.steps(normed, resid)
            steps = self.hook_step(look_up(steps, places.tokens) if by_token else steps)
        coords = self.scheme.coordinates(places, steps)
        if hooked(self.hook_coords):
            coords = self.hook_coords(coords.expand(len(places.tokens), -1, -1).clone()).float()
        return coords

    def _inputs(self, resid: Tensor, normed: Tensor, norm: Norm) -> tuple[Tensor, Tensor, Tensor]:
        """Normed inputs of q, k and v: one [B, T, D], or one a head [B, T, H, D] where someone hooks the fork."""
        forks = (self.hook_q_input, self.hook_k_input, self.hook_v_input)
        if not hooked(*forks, self.hook_attn_in):
            return normed, normed, normed
        per_head = resid[:, :, None].expand(-1, -1, self.n_heads, -1)
        if hooked(self.hook_attn_in):
            per_head = self.hook_attn_in(per_head.clone())
        q_in, k_in, v_in = (norm.unhooked(fork(per_head.clone())) for fork in forks)
        return q_in, k_in, v_in

    def _bias(self, coords: Tensor) -> Bias:
        """The scheme's bias as a function of positions."""

        def bias(queries: Tensor, keys: Tensor) -> Tensor:
            at = coords[:, queries] if queries.ndim == 1 else take_rows(coords.expand(len(queries), -1, -1), queries)
            real = self.scheme.bias(at, coords[:, keys])
            return F.pad(real, (0, 0, 0, 0, 0, self.n_heads - self.n_real))

        return bias

    def _explicit(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Visibility, bias: Bias | None
    ) -> Float[Tensor, "B T H E"]:
        """Attention by its definition, through the score and pattern hooks, in float32."""
        positions = torch.arange(q.shape[1], device=q.device)
        scores = torch.einsum("bqhe,bkhe->bhqk", q.float(), k.float()) * self.scale
        if bias is not None:
            scores = scores + bias(positions, positions)
        scores = scores.masked_fill(~visible.mask(positions, positions)[:, None], -math.inf)
        scores = self.hook_attn_scores(scores)
        blind = (scores == -math.inf).all(-1, keepdim=True)
        pattern = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
        if self.n_real < self.n_heads:
            real = torch.arange(self.n_heads, device=q.device) < self.n_real
            pattern = pattern * real[None, :, None, None]
        pattern = self.hook_pattern(pattern)
        return torch.einsum("bhqk,bkhe->bqhe", pattern, v.float()).to(v.dtype)

    def _write(self, z: Float[Tensor, "B R H E"]) -> Float[Tensor, "B R D"]:
        if hooked(self.hook_result):
            return self.hook_result(torch.einsum("bthe,hed->bthd", z, self.W_O)).sum(2)
        return z.flatten(2) @ self.W_O.flatten(0, 1)


def _project(x: Tensor, weight: Float[Tensor, "H D E"]) -> Float[Tensor, "B T H E"]:
    """X [B, T, D], or [B, T, H, D] with an input of its own for every head."""
    if x.ndim == 4:
        return torch.einsum("bthd,hde->bthe", x, weight)
    flat = weight.permute(1, 0, 2).flatten(1)
    return (x @ flat).unflatten(-1, weight.shape[::2])


def take_rows(x: Float[Tensor, "B T *C"], rows: Rows) -> Float[Tensor, "B R *C"]:
    """Return x at positions `rows` of every string; x may be shared by all strings (B = 1)."""
    if isinstance(rows, range):
        return x[:, rows.start : rows.stop]
    if len(x) == 1:
        return x[0][rows]
    return x[torch.arange(len(x), device=x.device)[:, None], rows]


def look_up(table: Float[Tensor, "1 V *C"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T *C"]:
    """Return table[tokens]; the gradients of a token's occurrences are added up in float32 at least."""
    wide = table[0].flatten(1).to(torch.promote_types(table.dtype, torch.float32))
    return F.embedding(tokens, wide).to(table.dtype).unflatten(-1, table.shape[2:])


def fast_attention(
    q: Float[Tensor, "B R H E"],
    k: Float[Tensor, "B T H E"],
    v: Float[Tensor, "B T H E"],
    visible: Visibility,
    scale: float,
    bias: Bias | None = None,
    rows: Rows | None = None,
) -> Float[Tensor, "B R H E"]:
    """Attention without its pattern, in memory linear in T; the zero vector for a query that sees nothing.

    Args:
        q: rotated queries.
        k: rotated keys.
        v: values.
        visible: the mask.
        scale: multiplies q k.
        bias: function of query and key positions that returns what is added to the scores.
        rows: positions of the queries; None where they are all positions in order.
    """
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if bias is None and rows is None and visible.plainly_causal:
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(1, 2)
        return z if visible.pad_mask is None else z.masked_fill(visible.pad_mask[:, :, None, None], 0.0)
    if isinstance(rows, range):
        if bias is None and visible.pad_mask is None and visible.plainly_causal and q.device.type == "cpu":
            return _causal_rows(q, k, v, rows, scale).transpose(1, 2)
        rows = torch.arange(rows.start, rows.stop, device=q.device).expand(len(q), -1)
    n_queries, n_keys = q.shape[2], k.shape[2]
    per_row = len(q) * n_keys * (1 if bias is None else q.shape[1])
    block = max(1, min(n_queries, BLOCK_ELEMENTS // per_row))
    parts = []
    for start in range(0, n_queries, block):
        stop = min(start + block, n_queries)
        if rows is None:
            queries = torch.arange(start, stop, device=q.device)
            first, last = visible.key_range(start, stop - 1)
        else:
            queries = rows[:, start:stop]
            first, last = 0, n_keys
        keys = torch.arange(first, last, device=q.device)
        parts.append(_masked_block(q[:, :, start:stop], k, v, visible, scale, bias, queries, keys))
    return torch.cat(parts, dim=2).transpose(1, 2)


def _masked_block(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visibility,
    scale: float,
    bias: Bias | None,
    queries: Tensor,
    keys: Tensor,
) -> Float[Tensor, "B H Q E"]:
    """One block of queries against the keys it can see, with an explicit mask or bias."""
    if queries.ndim == 2 and visible.plainly_causal:
        allowed = queries[..., None] >= keys  # pads come after every real query: this hides them too
        blind = queries < 0 if visible.pad_mask is None else visible.pad_mask.gather(1, queries)
    else:
        allowed = visible.mask(queries, keys)
        blind = ~allowed.any(-1)
    some_blind = bool(blind.any())
    allowed, blind = allowed[:, None], blind[:, None, :, None]
    if some_blind:
        allowed = allowed | blind  # a row without keys would be NaN; it is zeroed below
    mask = allowed if bias is None else bias(queries, keys).masked_fill(~allowed, -math.inf).to(q.dtype)
    first, last = int(keys[0]), int(keys[-1]) + 1
    z = F.scaled_dot_product_attention(q, k[:, :, first:last], v[:, :, first:last], attn_mask=mask, scale=scale)
    return z.masked_fill(blind, 0.0) if some_blind else z


def _causal_rows(q: Tensor, k: Tensor, v: Tensor, rows: range, scale: float) -> Float[Tensor, "B H R E"]:
    """Causal attention of consecutive queries: all keys before them without a mask, their own triangle, merged.

    PyTorch's causal mask starts at the first key, and an explicit one of R x T would defeat the purpose; its CPU
    kernel returns the log-sum-exp that the two parts are merged by.
    """
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    own = slice(rows.start, rows.stop)
    z, lse = attend(q, k[:, :, own], v[:, :, own], 0.0, True, scale=scale)
    if rows.start == 0:
        return z
    before, lse_before = attend(q, k[:, :, : rows.start], v[:, :, : rows.start], 0.0, False, scale=scale)
    return torch.lerp(before.float(), z.float(), torch.sigmoid(lse - lse_before)[..., None]).to(v.dtype)


class MLP(nn.Module):
    """W_out act(W_in x), or gated: W_out (act(W_gate x) * W_in x). No biases.

    Attributes:
        W_in, W_gate: [D, M]; W_out: [M, D].
        hook_pre: [B, T, M] what the activation sees; hook_pre_linear: the ungated factor; hook_post: what W_out reads.
    """

    def __init__(self, *, d_model: int, d_mlp: int, gated: bool, act_fn: str) -> None:
        super().__init__()
        self.act = ACTIVATIONS[act_fn]
        self.W_in = nn.Parameter(torch.zeros(d_model, d_mlp))
        self.W_out = nn.Parameter(torch.zeros(d_mlp, d_model))
        self.hook_pre = HookPoint()
        self.hook_post = HookPoint()
        self.gated = gated
        if gated:
            self.W_gate = nn.Parameter(torch.zeros(d_model, d_mlp))
            self.hook_pre_linear = HookPoint()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What the MLP adds to the residual stream."""
        if self.gated:
            post = self.act(self.hook_pre(x @ self.W_gate)) * self.hook_pre_linear(x @ self.W_in)
        else:
            post = self.act(self.hook_pre(x @ self.W_in))
        return self.hook_post(post) @ self.W_out
