"""The phrasebook: everyday sentence pairs in nine languages, generated from templates and an inflected lexicon."""

from cclm.phrasebook.corpus import CORPUS_VERSION, SIZES, Corpus, Phrasebook, Row, Split, generate, summary, write

__all__ = ["CORPUS_VERSION", "SIZES", "Corpus", "Phrasebook", "Row", "Split", "generate", "summary", "write"]
