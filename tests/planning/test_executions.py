from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.planning.executions import execution_arn, execution_name


@given(parts=st.lists(st.text(max_size=50), min_size=1, max_size=4))
def test_an_execution_name_is_stable_and_valid(parts: list[str]) -> None:
    name = execution_name("cosmos-reason2-2b", *parts)
    assert name == execution_name("cosmos-reason2-2b", *parts)
    assert len(name) <= 80
    assert name.replace("-", "").isalnum()


def test_parts_of_an_identity_are_kept_apart_in_an_execution_name() -> None:
    assert execution_name("p", "ab", "c") != execution_name("p", "a", "bc")


def test_the_arn_of_an_execution_follows_from_that_of_its_state_machine() -> None:
    arn = execution_arn("arn:aws:states:eu-west-1:111122223333:stateMachine:jobs", "a")
    assert arn == "arn:aws:states:eu-west-1:111122223333:execution:jobs:a"
