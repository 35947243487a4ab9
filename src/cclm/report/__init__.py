"""What a curriculum did and knows, for people to look at: drawings and tables."""
