"""What the benchmarks of speed share: the work, the systems that do it, and the clock."""
