"""What is trained on: from any parallel text to checked, tokenised, memory-mapped data. NumPy and SentencePiece."""
