"""A stand-in for ``docker``: it reads Dockerfiles and builds no layers. The local cloud runs the images that it pushes.

RUN is skipped. These errors are reported as with Docker: a missing Dockerfile or stage, a missing base in the account's
registry, a missing file to copy, a missing login, and an immutable tag. Bases of other registries are assumed to exist.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from cosmos_batch.local.containers.dockerfile import DockerfileError, instructions, read_image
from cosmos_batch.local.containers.images import Image

MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
# These options concern the build or its display, and not the image.
_IGNORED = ("--progress", "--provenance", "--sbom", "--platform", "--network", "--label", "--secret", "--builder")


class DockerError(RuntimeError):
    """A command failed; the message is the one of Docker."""


def main(argv: list[str]) -> int:
    """Run one command; return the exit status."""
    arguments = _parser().parse_args(argv[1:] if argv[:1] in (["buildx"], ["image"]) else argv)
    try:
        arguments.command(arguments)
    except (DockerError, DockerfileError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    except ClientError as error:
        print(f"ERROR: {_refusal(error)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("docker", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    login = commands.add_parser("login")
    login.add_argument("-u", "--username", required=True)
    login.add_argument("--password-stdin", action="store_true", required=True)
    login.add_argument("registry", nargs="?", default="docker.io")
    login.set_defaults(command=_login)
    build = commands.add_parser("build", allow_abbrev=False)
    build.add_argument("context")
    build.add_argument("-f", "--file")
    build.add_argument("-t", "--tag", action="append", default=[])
    build.add_argument("--build-arg", action="append", default=[])
    build.add_argument("--target")
    build.add_argument("--push", action="store_true")
    build.add_argument("--output", type=_settings, default={})
    build.add_argument("--cache-from", action="append")
    build.add_argument("--cache-to", action="append", default=[])
    for option in _IGNORED:
        build.add_argument(option)
    for option in ("--load", "--pull", "--no-cache", "-q"):
        build.add_argument(option, action="store_true")
    build.set_defaults(command=_build)
    tag = commands.add_parser("tag")
    tag.add_argument("source")
    tag.add_argument("target")
    tag.set_defaults(command=lambda arguments: _keep(arguments.target, _local(arguments.source)))
    for name, command in (("push", _push), ("pull", _pull), ("inspect", _inspect)):
        images = commands.add_parser(name)
        images.add_argument("image")
        images.set_defaults(command=lambda arguments, command=command: command(arguments.image))
    create = commands.add_parser("create")  # buildx create: a builder
    create.add_argument("--use", action="store_true")
    create.add_argument("--driver")
    create.add_argument("--driver-opt")
    create.set_defaults(command=lambda _: None)
    return parser


def _login(arguments: argparse.Namespace) -> None:
    registry = arguments.registry.removeprefix("https://").split("/")[0]
    if not sys.stdin.read().strip():
        raise DockerError(f"login attempt to https://{registry}/v2/ failed: no password")
    _write("config.json", {**_read("config.json"), registry: arguments.username})
    print("Login Succeeded")


def _build(arguments: argparse.Namespace) -> None:
    context = Path(arguments.context)
    dockerfile = Path(arguments.file) if arguments.file else context / "Dockerfile"
    build_arguments = dict(argument.partition("=")[::2] for argument in arguments.build_arg)
    image = read_image(dockerfile, build_arguments, arguments.target, _base)
    _check_copies(_until_stage(dockerfile, arguments.target), context)
    print(f"read {dockerfile}: ENTRYPOINT {list(image.entrypoint)}, CMD {list(image.command)}")
    tags = [*arguments.tag, *([arguments.output["name"]] if "name" in arguments.output else [])]
    for name in tags:
        _keep(name, image)
        if arguments.push or arguments.output.get("push") == "true":
            _push(name)
    for cache in map(_settings, arguments.cache_to):
        if cache.get("type") == "registry":
            _put(cache["ref"], image)


def _settings(text: str) -> dict[str, str]:
    """Read `name=value,name=value`."""
    return dict(part.partition("=")[::2] for part in text.split(","))


def _until_stage(dockerfile: Path, target: str | None) -> Iterator[tuple[str, str]]:
    """Yield the instructions up to the end of the target stage; Docker builds no later stage."""
    reached = False
    for keyword, arguments in instructions(dockerfile):
        if keyword == "FROM":
            if reached:
                return
            reached = target is not None and arguments.split()[-1] == target
        yield keyword, arguments


def _check_copies(lines: Iterable[tuple[str, str]], context: Path) -> None:
    """Check that the files of COPY exist in the context; names with variables are not checked."""
    for keyword, arguments in lines:
        words = arguments.split()
        if keyword != "COPY" or any(word.startswith(("--from", "<<")) for word in words) or arguments.startswith("["):
            continue
        for source in [word for word in words if not word.startswith("--")][:-1]:
            if "$" not in source and not any(context.glob(source.strip("/") or ".")):
                raise DockerError(f'failed to solve: failed to compute cache key: "/{source}": not found')


def _base(name: str) -> Image:
    if name in _read("images.json"):
        return _local(name)
    return _pulled(name) if _is_ours(name) else Image()


def _pull(name: str) -> None:
    _keep(name, _pulled(name) if _is_ours(name) else Image())


def _inspect(name: str) -> None:
    print(json.dumps([{"RepoTags": [name], "Config": vars(_local(name))}]))


def _pulled(name: str) -> Image:
    _check_login(name)
    with _opener().open(f"{os.environ['AWS_ENDPOINT_URL']}/local-cloud/images") as response:
        images = json.load(response)
    if name not in images:
        raise DockerError(f"failed to solve: {name}: not found")
    return Image(**images[name])


def _push(name: str) -> None:
    digest = _put(name, _local(name))
    image = vars(_local(name))
    repository = name.rpartition(":")[0]
    body = json.dumps({name: image, f"{repository}@{digest}": image}).encode()
    url = f"{os.environ['AWS_ENDPOINT_URL']}/local-cloud/images"
    _opener().open(urllib.request.Request(url, body, method="PUT")).close()  # noqa: S310 -- always http
    print(f"{name.rpartition(':')[2]}: digest: {digest}")


def _put(name: str, image: Image) -> str:
    """Put an image under its tag into ECR, and return its digest."""
    _check_login(name)
    repository, _, tag = name.partition("/")[2].partition(":")
    manifest = json.dumps({"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": vars(image)}, sort_keys=True)
    ecr = boto3.client("ecr")
    try:
        pushed = ecr.put_image(repositoryName=repository, imageManifest=manifest, imageTag=tag or "latest")
    except ecr.exceptions.ImageAlreadyExistsException:
        pushed = ecr.batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag or "latest"}])
        return pushed["images"][0]["imageId"]["imageDigest"]
    return pushed["image"]["imageId"]["imageDigest"]


def _check_login(name: str) -> None:
    registry = name.partition("/")[0]
    if not _is_ours(name):
        raise DockerError(f"push to {registry}: the local cloud has only the registry of the account")
    if registry not in _read("config.json"):
        raise DockerError(f"failed to authorize {name}: no basic auth credentials")


def _is_ours(name: str) -> bool:
    return ".dkr.ecr." in name.partition("/")[0]


def _refusal(error: ClientError) -> str:
    code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
    return f"tag invalid: {message}" if code == "ImageTagAlreadyExistsException" else f"{code}: {message}"


# --- files between commands ------------------------------------------------------------------------------------------


def _local(name: str) -> Image:
    try:
        return Image(**_read("images.json")[name])
    except KeyError:
        raise DockerError(f"An image does not exist locally with the tag: {name}") from None


def _keep(name: str, image: Image) -> None:
    _write("images.json", {**_read("images.json"), name: vars(image)})


def _state() -> Path:
    return Path(os.environ["DOCKER_CONFIG"])


def _read(name: str) -> dict[str, Any]:
    return json.loads((_state() / name).read_text()) if (_state() / name).exists() else {}


def _write(name: str, content: dict[str, Any]) -> None:
    _state().mkdir(exist_ok=True)
    (_state() / name).write_text(json.dumps(content))


def _opener() -> urllib.request.OpenerDirector:
    # A proxy of the machine must not be asked for what runs on the machine.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
