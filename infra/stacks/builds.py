"""The stack whose deployment waits until CodeBuild has built the images."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from aws_cdk import CrossStackReferences, ReferenceStrength, Stack
from constructs import Construct

from infra.constructs.image_build import ImageBuild


class BuildsStack(Stack):
    """The builds of all images. A failed build rolls back only this stack; the repositories keep what was built.

    A new account runs one build at a time, and CloudFormation's hour includes the time in CodeBuild's queue. So each
    build starts when the one before has ended.
    """

    def __init__(self, scope: Construct, construct_id: str, builds: Sequence[ImageBuild], **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        # CloudFormation refuses to delete an export that is in use, so that an unused image could not be removed.
        CrossStackReferences.of(self).consume(ReferenceStrength.WEAK)
        built = [build.build_in(self) for build in builds]
        for before, after in pairwise(built):
            after.node.add_dependency(before)
        for build in builds:
            # The rule for the end of a build must exist before the build starts.
            self.add_stack_dependency(Stack.of(build))
