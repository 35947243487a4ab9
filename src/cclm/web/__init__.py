"""What the board and the translation service share: who may ask, and how connections are limited."""
