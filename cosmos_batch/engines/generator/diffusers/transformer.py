"""Cosmos 3's transformer of Diffusers with two caches: of prompts, which is exact, and of steps, which is lossy.

A layer has two streams. The text stream is causal and attends to text alone, neither to the noise nor to the timestep,
so its result is the same in every denoising step. The noise stream reads only its keys and values.
`PromptCachingTransformer` computes these once for each prompt; all results are equal, term by term.

`StepCachingTransformer` also skips the layers in every second step in the middle of the denoising. What the layers add
to the noise stream changes little from one step to the next, so a skipped step adds what the step before added. Which
steps are skipped follows from their number alone, so a job's duration is known beforehand.
"""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.embeddings import TimestepEmbedding
from diffusers.models.transformers.transformer_cosmos3 import Cosmos3OmniTransformer, Cosmos3VLTextMoTDecoderLayer
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


class TwoStreamLayer(Cosmos3VLTextMoTDecoderLayer):
    """A layer whose text stream (`read`) and noise stream (`forward`) are computed separately.

    Attributes
    ----------
    kernel
        The attention of the noise stream, with FlashAttention's interface: queries, keys and values of
        [batch, tokens, heads, width] become a tensor of the queries' shape. None means Diffusers' own attention.
    """

    kernel: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def read(self, text: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, KeysValues]:
        """Return the text stream after this layer, and the keys and values that the noise stream attends to."""
        attention = self.self_attn
        normed = self.input_layernorm(text)
        query = _rotated(attention.norm_q(_heads(attention.to_q(normed), attention)), cos, sin)
        key = attention.norm_k(_heads(attention.to_k(normed), attention))
        value = _heads(attention.to_v(normed), attention)
        normalized = key if attention.k_norm_und_for_gen is None else attention.k_norm_und_for_gen(key)
        attended = _attend(attention, query, _rotated(key, cos, sin), value, is_causal=True)
        text = text + attention.to_out(attended)
        return text + self.mlp(self.post_attention_layernorm(text)), (_rotated(normalized, cos, sin), value)

    def forward(self, key: Tensor, value: Tensor, noise: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the noise stream after this layer, for a text with these keys and values."""
        attention = self.self_attn
        normed = self.input_layernorm_moe_gen(noise)
        query = _rotated(attention.norm_added_q(_heads(attention.add_q_proj(normed), attention)), cos, sin)
        noise_key = _rotated(attention.norm_added_k(_heads(attention.add_k_proj(normed), attention)), cos, sin)
        noise_value = _heads(attention.add_v_proj(normed), attention)
        keys, values = torch.cat([key, noise_key]), torch.cat([value, noise_value])
        noise = noise + attention.to_add_out(self._attend_to_all(query, keys, values))
        return noise + self.mlp_moe_gen(self.post_attention_layernorm_moe_gen(noise))

    def _attend_to_all(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if self.kernel is None:
            return _attend(self.self_attn, query, keys, values, is_causal=False)
        return self.kernel(query.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0)).squeeze(0).flatten(-2)


class PromptCachingTransformer(Cosmos3OmniTransformer):
    """The transformer with `TwoStreamLayer`s, which keeps keys and values of prompts while `prompt_cache` lasts."""

    _repeated_blocks = (TwoStreamLayer.__name__,)
    _prompts: list[tuple[Tensor, list[KeysValues]]] | None = None

    @contextmanager
    def prompt_cache(self) -> Iterator[None]:
        """Keep keys and values of every prompt while the context lasts. Outside, they are computed in each call."""
        self._prompts = []
        try:
            yield
        finally:
            self._prompts = None

    @wraps(Cosmos3OmniTransformer.forward)  # the modular pipeline inspects the signature
    def forward(self, *arguments: Any, **named: Any) -> Any:
        self._prompt = arguments[0] if arguments else named["input_ids"]
        return super().forward(*arguments, **named)

    def _run_decoder_stack(
        self, und_seq: Tensor, gen_seq: Tensor, rotary_emb: tuple[Tensor, Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Replace Diffusers' loop over the layers. The text is returned unchanged: Diffusers does not use it."""
        text_cos, text_sin, cos, sin = (part.unsqueeze(1) for part in rotary_emb)
        prompt = self._keys_values(und_seq, text_cos, text_sin)
        return und_seq, self.norm_moe_gen(self._through_layers(gen_seq, prompt, cos, sin))

    def _through_layers(self, noise: Tensor, prompt: list[KeysValues], cos: Tensor, sin: Tensor) -> Tensor:
        noise = noise.clone()  # a view has other strides than a tensor of its own, for which torch would compile again
        for layer, (key, value) in zip(self.layers, prompt, strict=True):
            noise = layer(key, value, noise, cos, sin)
        return noise

    def _keys_values(self, text: Tensor, cos: Tensor, sin: Tensor) -> list[KeysValues]:
        """Return keys and values of the current prompt for each layer. They depend on its tokens alone, because a text
        always begins at position 0."""
        prompt = self._prompt
        # A pipeline passes the same tensor object in all steps: comparing identity first avoids waiting for the GPU.
        for is_same in (operator.is_, torch.equal):
            for cached_prompt, cached in self._prompts or ():
                if is_same(cached_prompt, prompt):
                    return cached
        computed = []
        text = text.clone()  # a view has other strides, as in `_through_layers`
        for layer in self.layers:
            text, keys_values = layer.read(text, cos, sin)
            computed.append(keys_values)
        if self._prompts is not None:
            self._prompts.append((prompt, computed))
        return computed


def cache_prompts(transformer: Any) -> None:
    """Turn a loaded transformer into a `PromptCachingTransformer` by changing classes; no weights are copied."""
    for layer in transformer.layers:
        layer.__class__ = TwoStreamLayer
    transformer.__class__ = PromptCachingTransformer


class SharedTimestepEmbedding(TimestepEmbedding):
    """Diffusers' embedding of timesteps, computed once for all noisy tokens of a pass.

    They all have the same timestep, with which the pipelines fill a tensor. Diffusers embeds it for each of them, which
    for many tokens is a large product of matrices in float32.
    """

    def forward(self, sample: Tensor, condition: Any = None) -> Tensor:
        """Return the embeddings [tokens, width] of timesteps [tokens, channels], all of which are equal."""
        embedded: Tensor = super().forward(sample[:1], condition)
        return embedded.expand(sample.shape[0], -1)


def share_timestep(transformer: Any) -> None:
    """Turn the embedding of timesteps into a `SharedTimestepEmbedding` by changing its class."""
    transformer.time_embedder.__class__ = SharedTimestepEmbedding


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
"""How many steps at the beginning and at the end are always computed."""


def is_step_reused(step: int, steps: int) -> bool:
    """Return whether step `step` (from 0) of `steps` adds the change of the step before. Of 35 steps, 14 do."""
    return FIRST <= step < steps - LAST and (step - FIRST) % 2 == 0


class StepCachingTransformer(PromptCachingTransformer):
    """A transformer that skips its layers in some steps; see `is_step_reused`.

    A step has several passes, such as those of the prompt and of the negative prompt, and each has a change of its own.
    """

    @contextmanager
    def prompt_cache(self) -> Iterator[None]:
        """Keep keys and values of prompts, and the changes of steps, while one job is generated."""
        self._changes: dict[tuple[str, int], Tensor] = {}
        with super().prompt_cache():
            try:
                yield
            finally:
                self._changes.clear()

    @contextmanager
    def cache_context(self, name: str, **where: Any) -> Iterator[None]:
        """Note the pass and step that come next. Diffusers enters this context around each pass."""
        self._pass, self._step, self._steps = name, where["step_index"], where["num_inference_steps"]
        with super().cache_context(name, **where):
            yield

    def _through_layers(self, noise: Tensor, *others: Any) -> Tensor:
        change = self._changes.pop((self._pass, self._step - 1), None)
        if change is not None:
            return noise + change
        output = super()._through_layers(noise, *others)
        if is_step_reused(self._step + 1, self._steps):
            self._changes[self._pass, self._step] = output - noise
        return output
