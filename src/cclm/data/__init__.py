"""From parallel text in any format to checked, segmented, memory-mapped data and batches. Does not need torch."""
