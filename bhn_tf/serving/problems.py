"""Problems that the user of a scoring command can mend."""


class ScoringProblem(ValueError):
    """Input, output or model does not fit: the message says which, and what to do."""
