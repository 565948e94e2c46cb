#!/bin/bash
# Builds one image and pushes it, unless its tag is there. CodeBuild runs this; its project sets the variables.
set -euo pipefail

# Version and digest belong together: Docker pulls by the digest, the version is for people.
BUILDKIT=moby/buildkit:v0.25.1@sha256:79cc6476ab1a3371c9afd8b44e7c55610057c43e18d9b39b68e2b0c2475cc1b6

registry=${REPOSITORY%%/*}
if aws ecr describe-images --repository-name "${REPOSITORY#*/}" --image-ids "imageTag=$TAG" > /dev/null 2>&1; then
    echo "$REPOSITORY:$TAG is there already"
    exit 0
fi

aws ecr get-login-password | docker login --username AWS --password-stdin "$registry"
# The mirror may be another registry of ECR, such as that of a central account.
ecr_mirror=${MIRROR%%/*}
if [[ $ecr_mirror =~ ^[0-9]+\.dkr\.ecr\.([a-z0-9-]+)\. && $ecr_mirror != "$registry" ]]; then
    aws ecr get-login-password --region "${BASH_REMATCH[1]}" | docker login --username AWS --password-stdin "$ecr_mirror"
fi
if [ -n "${DOCKER_HUB_USERNAME:-}" ]; then
    echo "$DOCKER_HUB_PASSWORD" | docker login --username "$DOCKER_HUB_USERNAME" --password-stdin
fi

# The engine's own builder can keep neither the layers of all stages nor compress with zstd: BuildKit in a container can. Its
# image comes from Docker Hub once, and from our own repository after that.
builder="$CACHE:buildkit-${BUILDKIT##*:}"
if ! docker pull "$builder"; then
    docker pull "$MIRROR$BUILDKIT"
    docker tag "$MIRROR$BUILDKIT" "$builder"
    docker push "$builder"
fi
docker buildx create --use --driver docker-container --driver-opt "image=$builder"

file="containers/$IMAGE/Dockerfile"
compressed=compression=zstd,force-compression=true,oci-mediatypes=true
arguments=(--file "$file" --build-arg "MIRROR=$MIRROR" --build-arg "CUDA=$CUDA" --provenance false)

# One stage after the other: the layers of each are kept as soon as it is built, so a build that is cut off goes on with the
# stage in which it was.
mapfile -t stages < <(sed -n 's/^FROM .* AS //p' "$file")
for stage in "${stages[@]}"; do
    arguments+=(--cache-from "type=registry,ref=$CACHE:stage-$stage")
done
for stage in "${stages[@]}"; do
    docker buildx build . "${arguments[@]}" --target "$stage" --output type=cacheonly \
        --cache-to "type=registry,ref=$CACHE:stage-$stage,mode=max,image-manifest=true,$compressed"
done
docker buildx build . "${arguments[@]}" --output "type=image,name=$REPOSITORY:$TAG,push=true,$compressed"
