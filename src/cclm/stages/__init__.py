"""The stages before training, as the command line runs them: each prints what it did and leaves its files in `work`."""
