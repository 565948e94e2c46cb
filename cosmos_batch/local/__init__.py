"""The local cloud: moto's own server, in which a container is a subprocess.

The rest of the app does not know this room. It talks to AWS through boto3, and ``AWS_ENDPOINT_URL`` decides which AWS
that is. ``cloud.LocalCloud`` starts and stops one; ``deploy.deploy`` puts a synthesized CDK assembly into it. What moto
does differently from AWS is mended in ``mends``, one module for each service.
"""
