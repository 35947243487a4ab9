"""The loop: the one place where curriculum, data and model meet."""
