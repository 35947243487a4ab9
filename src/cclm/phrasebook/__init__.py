"""The phrasebook: everyday sentence pairs in nine languages, made from templates and an inflected lexicon."""

from cclm.phrasebook.corpus import SIZES, Corpus, Phrasebook, Row, Split, generate, summary, write

__all__ = ["SIZES", "Corpus", "Phrasebook", "Row", "Split", "generate", "summary", "write"]
