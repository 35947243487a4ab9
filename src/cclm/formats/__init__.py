"""What is on disk: one typed class per file format, with `read` and `write`. Versions live here and nowhere else."""
