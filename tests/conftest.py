"""For all tests."""

from hypothesis import settings

# The same examples every time, and no time asserted: a busy machine is no defect.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")
