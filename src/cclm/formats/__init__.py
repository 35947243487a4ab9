"""File formats: one typed class per file, with `read` and `write`. Format versions are defined only here."""
