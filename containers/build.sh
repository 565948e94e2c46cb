#!/bin/bash
# Builds one image and pushes it, unless its tag is there. CodeBuild runs this; its project sets the variables.
set -euo pipefail

registry=${REPOSITORY%%/*}
if aws ecr describe-images --repository-name "${REPOSITORY#*/}" --image-ids "imageTag=$TAG" > /dev/null 2>&1; then
    echo "$REPOSITORY:$TAG is there already"
    exit 0
fi

aws ecr get-login-password | docker login --username AWS --password-stdin "$registry"
if [ -n "${DOCKER_HUB_USERNAME:-}" ]; then
    echo "$DOCKER_HUB_PASSWORD" | docker login --username "$DOCKER_HUB_USERNAME" --password-stdin
fi

# The layers of the last build are those of the image that it pushed to the cache. The engine's own builder can do that;
# one that keeps them apart runs in an image of its own, which would be pulled from Docker Hub.
docker buildx build . \
    --file "containers/$IMAGE/Dockerfile" \
    --build-arg "MIRROR=$MIRROR" \
    --build-arg "CUDA=$CUDA" \
    --cache-from "type=registry,ref=$CACHE:layers" \
    --cache-to type=inline \
    --provenance false \
    --tag "$REPOSITORY:$TAG" \
    --tag "$CACHE:layers" \
    --push
