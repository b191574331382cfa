"""Read the corpus in FOLDER, print what became of it, and write the table into docs/ebms2.md.

python -m tests.corpus FOLDER [--write]
"""

import sys
from pathlib import Path

from .page import PAGE, with_table
from .reading import read_corpus, surprises, table


def main(arguments: list[str]) -> int:
    folders = [each for each in arguments if not each.startswith("-")]
    if len(folders) != 1:
        sys.exit(__doc__)
    outcomes = list(read_corpus(Path(folders[0])))
    text = table(outcomes)
    sys.stdout.write(text)
    for outcome in outcomes:
        if outcome.reason:
            sys.stdout.write(f"refused {outcome.label}: {outcome.reason}\n")
    if "--write" in arguments:
        PAGE.write_text(with_table(PAGE.read_text(), text))
    unexpected = surprises(outcomes)
    sys.stdout.writelines(f"NOT AS DESCRIBED {line}\n" for line in unexpected)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
