"""Named by the entry point; it must import nothing of vLLM-Omni, which is being imported."""


def register() -> str:
    """Where the platform is."""
    return "omni_cpu.platform.CpuOmniPlatform"
