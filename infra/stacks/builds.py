"""The building of the images, apart from where they are kept."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from aws_cdk import CrossStackReferences, ReferenceStrength, Stack
from constructs import Construct

from infra.constructs.image_build import ImageBuild


class BuildsStack(Stack):
    """Waits for CodeBuild. A build that fails takes back this stack alone; the repositories keep all that was built.

    New accounts run one build at a time, and one that waits in the queue uses up CloudFormation's hour: each build
    begins when the one before has ended.
    """

    def __init__(self, scope: Construct, construct_id: str, builds: Sequence[ImageBuild], **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        # An export that is in use cannot go: an image that no pipeline needs any more could never be removed.
        CrossStackReferences.of(self).consume(ReferenceStrength.WEAK)
        built = [build.build_in(self) for build in builds]
        for before, after in pairwise(built):
            after.node.add_dependency(before)
        for build in builds:
            # The end of a build is heard before it begins.
            self.add_stack_dependency(Stack.of(build))
