"""The curriculum inside other people's trainers."""
