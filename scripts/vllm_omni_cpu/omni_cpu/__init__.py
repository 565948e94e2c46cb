"""Named by the entry point; it must import nothing of vLLM-Omni, which is being imported."""


def register() -> str:
    """Return the path of the platform's class, for vLLM-Omni to import."""
    return "omni_cpu.platform.CpuOmniPlatform"
