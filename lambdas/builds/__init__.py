"""Have CodeBuild build the workers' images while CloudFormation deploys them."""
