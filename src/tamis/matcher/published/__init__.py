"""Read published indexes, in a folder or in a bucket, and keep copies of what a bucket holds."""
