"""Reports as self-contained pages and drawings: runs, studies, sweeps, language graphs."""
