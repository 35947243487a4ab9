"""Do the phrasebook's languages read as what they are? py3langid's verdict on each test set, as a Markdown table.

    python benchmarks/phrasebook_langid.py          # needs: pip install 'ccl-m[langid]'

py3langid chooses among all the languages it knows; the sentences are short, so that near relatives are hard to tell.
"""

from collections import Counter

import py3langid

from cclm.phrasebook import Phrasebook, generate

# ISO 639-1, and the near relative in the phrasebook.
CODES = {"tur": "tr", "aze": "az", "rus": "ru", "bel": "be", "por": "pt", "glg": "gl", "ces": "cs", "slk": "sk"}
RELATIVES = {"tur": "aze", "rus": "bel", "por": "glg", "ces": "slk"}
RELATIVES |= {lrl: hrl for hrl, lrl in RELATIVES.items()}


def main() -> None:
    book = Phrasebook.load()
    corpus = generate(book, seed=1)
    print("| language | as itself | as its relative | as another |")
    print("|---|---:|---:|---:|")
    for lang, relative in RELATIVES.items():
        pairs = corpus.splits[lang]["test"].pairs
        found = Counter(py3langid.classify(other)[0] for _, other in pairs)
        own, near = (found[CODES[code]] / len(pairs) for code in (lang, relative))
        print(f"| {book.names[lang]} | {own:.0%} | {near:.0%} ({book.names[relative]}) | {1 - own - near:.0%} |")


if __name__ == "__main__":
    main()
