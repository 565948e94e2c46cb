"""A local cloud for CDK apps: moto's server, patched where it differs from AWS, in which a container is a process.

``cloud.LocalCloud`` starts and stops one, and ``deploy.deploy`` deploys a synthesized CDK assembly to it. An app talks
to it through any AWS SDK: ``AWS_ENDPOINT_URL`` decides. ``README.md`` in this folder explains the parts.
"""
