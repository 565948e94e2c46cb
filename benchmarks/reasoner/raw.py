"""vLLM without our worker: `LLM.generate` in this process, on the frames that our worker would send.

    python -m benchmarks.reasoner.raw ASKED.json

It reads the requests from a file and prints one JSON object: the seconds of each phase, the tokens of each answer.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

BEGAN = time.time()


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    from vllm import LLM, SamplingParams

    imported = time.time()
    llm = LLM(model=request["model"], **request["engine"])
    loaded = time.time()
    tokenizer = llm.get_tokenizer()
    sampling = SamplingParams(**request["sampling"], ignore_eos=True)
    output: dict[str, Any] = {"import": imported - BEGAN, "load": loaded - imported, "passes": []}
    for questions in request["passes"]:
        prompts: Any = [_prompt(tokenizer, request["template"], one) for one in questions]
        began = time.time()
        answers = llm.generate(prompts, sampling, use_tqdm=False)
        output["passes"].append(
            {
                "seconds": time.time() - began,
                "tokens": sum(len(answer.outputs[0].token_ids) for answer in answers),
                "promptTokens": sum(len(answer.prompt_token_ids or ()) for answer in answers),
            }
        )
    print(json.dumps(output), flush=True)


def _prompt(tokenizer: Any, template: str | None, question: dict[str, str]) -> dict[str, Any]:
    from cosmos_batch.media.clip_files import read_clip

    frames, metadata = read_clip(Path(question["frames"]).read_bytes())
    messages = [
        {"role": "system", "content": question["system"]},
        {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question["prompt"]}]},
    ]
    return {
        "prompt": tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=True
        ),
        "multi_modal_data": {"video": [(frames, {**metadata, "do_sample_frames": False})]},
    }


if __name__ == "__main__":
    main()
