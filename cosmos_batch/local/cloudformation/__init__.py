"""CloudFormation: resource types that moto lacks, custom resources, exports, and the order of resources."""
