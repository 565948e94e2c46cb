"""CodeBuild: builds that run their buildspec on this machine."""
