"""Cosmos 3's transformer as Diffusers has it, with each prompt read once instead of in every denoising step.

A layer has two streams. The text's is causal: it looks at nothing but the text before it, so neither at the noise nor
at the timestep, and what it comes to is the same in all steps. The other stream sees of it one thing, its keys and
values. Here they are computed once for each prompt and kept; what is computed is the same, term by term.
"""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.transformers.transformer_cosmos3 import Cosmos3OmniTransformer, Cosmos3VLTextMoTDecoderLayer
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


class TwoStreamLayer(Cosmos3VLTextMoTDecoderLayer):
    """A layer whose streams are computed apart.

    Attributes
    ----------
    kernel
        That attends in the noise's stream, of FlashAttention's interface: queries, keys and values of
        [batch, tokens, heads, width] become one of the queries' shape. None: what Diffusers takes.
    """

    kernel: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def read(self, text: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, KeysValues]:
        """The text behind this layer, and what the other stream sees of it."""
        attention = self.self_attn
        normed = self.input_layernorm(text)
        query = _rotated(attention.norm_q(_heads(attention.to_q(normed), attention)), cos, sin)
        key = attention.norm_k(_heads(attention.to_k(normed), attention))
        value = _heads(attention.to_v(normed), attention)
        seen = key if attention.k_norm_und_for_gen is None else attention.k_norm_und_for_gen(key)
        attended = _attend(attention, query, _rotated(key, cos, sin), value, is_causal=True)
        text = text + attention.to_out(attended)
        return text + self.mlp(self.post_attention_layernorm(text)), (_rotated(seen, cos, sin), value)

    def forward(self, key: Tensor, value: Tensor, noise: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The noise behind this layer, for a text with these keys and values."""
        attention = self.self_attn
        normed = self.input_layernorm_moe_gen(noise)
        query = _rotated(attention.norm_added_q(_heads(attention.add_q_proj(normed), attention)), cos, sin)
        own_key = _rotated(attention.norm_added_k(_heads(attention.add_k_proj(normed), attention)), cos, sin)
        own_value = _heads(attention.add_v_proj(normed), attention)
        keys, values = torch.cat([key, own_key]), torch.cat([value, own_value])
        noise = noise + attention.to_add_out(self._attend_to_all(query, keys, values))
        return noise + self.mlp_moe_gen(self.post_attention_layernorm_moe_gen(noise))

    def _attend_to_all(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if self.kernel is None:
            return _attend(self.self_attn, query, keys, values, is_causal=False)
        return self.kernel(query.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0)).squeeze(0).flatten(-2)


class PromptCachingTransformer(Cosmos3OmniTransformer):
    """The transformer with layers of that kind."""

    _repeated_blocks = (TwoStreamLayer.__name__,)
    _read: list[tuple[Tensor, list[KeysValues]]] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While it lasts, what was read of a prompt is kept; otherwise it is read for each call."""
        self._read = []
        try:
            yield
        finally:
            self._read = None

    @wraps(Cosmos3OmniTransformer.forward)  # the modular pipeline asks for the names of its arguments
    def forward(self, *arguments: Any, **named: Any) -> Any:
        self._prompt = arguments[0] if arguments else named["input_ids"]
        return super().forward(*arguments, **named)

    def _run_decoder_stack(
        self, und_seq: Tensor, gen_seq: Tensor, rotary_emb: tuple[Tensor, Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The text is given back as it came: nothing reads what becomes of it."""
        text_cos, text_sin, cos, sin = (one.unsqueeze(1) for one in rotary_emb)
        seen = self._of_prompt(und_seq, text_cos, text_sin)
        return und_seq, self.norm_moe_gen(self._through_layers(gen_seq, seen, cos, sin))

    def _through_layers(self, noise: Tensor, seen: list[KeysValues], cos: Tensor, sin: Tensor) -> Tensor:
        noise = noise.clone()  # a layer compiled for what is part of another tensor is compiled again for the rest
        for layer, (key, value) in zip(self.layers, seen, strict=True):
            noise = layer(key, value, noise, cos, sin)
        return noise

    def _of_prompt(self, text: Tensor, cos: Tensor, sin: Tensor) -> list[KeysValues]:
        """A text always begins at position 0, so its tokens say all that its keys and values follow from."""
        prompt = self._prompt
        # A pipeline gives the same tensor in all steps; to compare tokens is to wait for the GPU.
        for same in (operator.is_, torch.equal):
            for known, kept in self._read or ():
                if same(known, prompt):
                    return kept
        kept = []
        for layer in self.layers:
            text, seen = layer.read(text, cos, sin)
            kept.append(seen)
        if self._read is not None:
            self._read.append((prompt, kept))
        return kept


def cache_prompts(transformer: Any) -> None:
    """Make a loaded transformer one that reads each prompt once. Its weights stay where they are."""
    for layer in transformer.layers:
        layer.__class__ = TwoStreamLayer
    transformer.__class__ = PromptCachingTransformer


def _heads(projected: Tensor, attention: Any) -> Tensor:
    return projected.view(projected.shape[0], -1, attention.head_dim)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin


def _attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool) -> Tensor:
    attended = dispatch_attention_fn(
        query.unsqueeze(0),
        key.unsqueeze(0),
        value.unsqueeze(0),
        is_causal=is_causal,
        enable_gqa=True,
        backend=attention.processor._attention_backend,
    )
    return attended.squeeze(0).flatten(-2)


FIRST = LAST = 4
"""So many steps are computed at the beginning, and at the end."""


def is_step_reused(step: int, steps: int) -> bool:
    """Of 35 steps, 14 are."""
    return FIRST <= step < steps - LAST and (step - FIRST) % 2 == 0


class StepCachingTransformer(PromptCachingTransformer):
    """That transformer. A step has several passes, such as for the prompt and for the negative prompt: each has its own
    change.
    """

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While a job is made, its changes are kept."""
        self._changes: dict[tuple[str, int], Tensor] = {}
        with super().reading():
            try:
                yield
            finally:
                self._changes.clear()

    @contextmanager
    def cache_context(self, name: str, **where: Any) -> Iterator[None]:
        """Diffusers tells here which pass of which step comes."""
        self._pass, self._step, self._steps = name, where["step_index"], where["num_inference_steps"]
        with super().cache_context(name, **where):
            yield

    def _through_layers(self, noise: Tensor, *others: Any) -> Tensor:
        change = self._changes.pop((self._pass, self._step - 1), None)
        if change is not None:
            return noise + change
        behind = super()._through_layers(noise, *others)
        if is_step_reused(self._step + 1, self._steps):
            self._changes[self._pass, self._step] = behind - noise
        return behind
