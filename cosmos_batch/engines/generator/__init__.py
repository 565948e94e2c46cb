"""Engines that generate images, videos, sound and robot actions from a job's `Generation` and its input files.

To add a generator engine, make a folder beside `diffusers/` whose `engine.py` has a class that implements
`engines.protocol.Engine`, and add a row to `cosmos_batch/catalogue/engines.py` with its name, image, class and what it
can do (`GeneratorAbilities`). `run` is four steps, and the modules of this folder do all but the third, so that every
engine takes the same inputs and writes the same outputs:

1. `inputs.prepare` decodes the input files and fits them to the exact size, frame count and frame rate of the job.
2. `captions.captions_for` writes the text that the model reads, and `captions.with_sequence_length` sets the longest
   prompt in tokens. The engine's own prompt templates must be switched off.
3. The engine generates. It may raise `guardrails.guardrails_missing` and the like.
4. `outputs.write_files` writes frames, sound and actions as the job's files; `outputs.rewrite_files` does so for a file
   that the engine has encoded itself.

`upsampling` rewrites a job's prompt before any engine sees it. `torchrun_engine.TorchrunGenerator` is the base class of
engines that run as a torchrun process group; its subclasses write only what they send and what comes back.

The four folders here are examples of three kinds: a library in the worker's own process (`diffusers`), an HTTP server
as a child process or on another machine (`vllm_omni`), and a torchrun group (`cosmos_framework`, `phyai`).
"""
