"""Operations: what operators and the clock change, and what operators are shown."""
