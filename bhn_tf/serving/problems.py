"""What the person who asks for scores can mend."""


class ScoringProblem(ValueError):
    """Input, output or model do not fit: the message says which, and what to do."""
