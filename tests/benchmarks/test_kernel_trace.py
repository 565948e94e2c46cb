"""What is read from a trace of PyTorch's profiler, and what the page says of it."""

import json
import re
from pathlib import Path

from benchmarks import kernels_page
from benchmarks.kernel_trace import kernel_kind, kernel_seconds, newest_trace, profiler_options


def event(name: str, start: float, seconds: float, category: str = "kernel") -> dict[str, object]:
    return {"cat": category, "name": name, "ts": start * 1e6, "dur": seconds * 1e6}


def test_kernels_that_overlap_are_busy_once_and_count_for_each_kind(tmp_path: Path) -> None:
    events = [
        event("nvjet_tst_128", 1, 2),
        event("triton_poi_fused", 2, 2),  # on another stream, and for a second at the same time
        event("flash_fwd_kernel", 6, 1),
        event("Memcpy HtoD", 6.25, 0.5, "gpu_memcpy"),
        event("aten::mm", 0, 10, "cpu_op"),
    ]
    (trace := tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    found = kernel_seconds(trace)
    assert found["kinds"] == {"products": 2.0, "compiled": 2.0, "attention": 1.0, "copies": 0.5}
    assert list(found["longest"])[:2] == ["nvjet_tst_128", "triton_poi_fused"]
    assert (found["busy"], found["span"]) == (4.0, 6.0)


def test_what_is_compiled_for_a_product_is_no_product() -> None:
    assert kernel_kind("triton_red_fused_abs_amax_cutlass_scaled_mm_gelu_4") == "compiled"
    assert kernel_kind("void cutlass::device_kernel<vllm::cutlass_3x_gemm_sm90_fp8<...>>") == "products"


def test_a_trace_without_a_gpu_has_no_kernels(tmp_path: Path) -> None:
    (trace := tmp_path / "a.json").write_text('{"traceEvents": []}', encoding="utf-8")
    assert kernel_seconds(trace) == {"kinds": {}, "longest": {}, "busy": 0.0, "span": 0.0}
    assert newest_trace(tmp_path, "*.json") == trace


def test_servers_write_plain_traces_below_the_folder() -> None:
    option, value = profiler_options(Path("/traces"))
    assert option == "--profiler-config"
    assert json.loads(value) == {
        "profiler": "torch", "torch_profiler_dir": "/traces", "torch_profiler_use_gzip": False,
        "torch_profiler_with_stack": False,
    }  # fmt: skip


def test_the_page_names_the_kernel_that_reads_keys_and_values_and_no_more_than_the_memory_can() -> None:
    text = " ".join(kernels_page.reasoner().split())
    [seconds] = re.findall(r"(\d\.\d\d) s of it are one kernel", text)
    [rate, of_memory] = re.findall(r"These are (\d\.\d) TB/s of the (\d\.\d) that", text)[0]
    assert float(seconds) > 1 and 0.5 * float(of_memory) < float(rate) < float(of_memory)
    assert text.count("| 16-bit |") == text.count("| FP8 |") == 1
