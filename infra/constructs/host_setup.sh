#!/bin/bash
# Runs once on a new host, as its user data; ECS starts after it.
set -euo pipefail

# A stopped container has so long between SIGTERM and SIGKILL; Batch has no setting of its own for it.
echo ECS_CONTAINER_STOP_TIMEOUT=120s >> /etc/ecs/ecs.config
# Tags of images never move: one that is here is the one. `prefer-cached` would say so too, and turn the clean-up of images
# off: a host that is busy across many deployments would fill its disk.
echo ECS_IMAGE_PULL_BEHAVIOR=once >> /etc/ecs/ecs.config

# One NVMe instance store is the scratch of all workers of this host. Where there is none, or where this fails, ECS makes
# /mnt/scratch on the root volume; workers see that in the mount table and refuse to start.
disk=$(lsblk --nodeps --noheadings --paths --output NAME,MODEL | awk '/Amazon EC2 NVMe Instance Storage/ {print $1; exit}')
if [ -z "$disk" ]; then
    echo "this host has no NVMe instance store" >&2
    exit 1
fi
if [ -z "$(lsblk --nodeps --noheadings --output FSTYPE "$disk")" ]; then
    mkfs.xfs -q "$disk"
fi
mkdir -p /mnt/scratch
mount -o noatime "$disk" /mnt/scratch
# 1000: the worker's user in every image.
install -d -o 1000 -g 1000 /mnt/scratch/workers /mnt/scratch/models

# Images and containers lie there too: EBS writes and reads less in a second. Docker and ECS wait for this script
# (docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-install.html); a Docker that runs keeps the root volume.
if ! systemctl is-active --quiet docker; then
    mkdir -p /mnt/scratch/docker /var/lib/docker
    mount --bind /mnt/scratch/docker /var/lib/docker
fi
