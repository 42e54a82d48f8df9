"""Words of this project's own, for what the glossary calls by the field's."""

import re
from typing import Final

# In names: of modules, classes, aliases and functions.
RETIRED: Final = frozenset(
    (
        *("foresight", "inquiry", "knowledge", "lane", "ledger", "line", "mark", "news"),
        *("obstacle", "option", "outlook", "place", "promise", "promised", "reach", "replanned"),
        *("room", "stand", "standing"),
    )
)
# In prose: messages, docstrings, comments and documents; and what to write in their place.
PRIVATE: Final = {
    r"\b(?:told|tells?|telling)\b": "published, reported, notified; shows",
    r"\bweigh(?:s|ed|ing)?\b": "evaluate, compare",
    r"\bholdings?\b": "allocations",
    r"\bstandings?\b": "state",
    r"\b(?:stands?|stood)\b": "is, is suspended, is stuck; means",
    r"\bapart\b": "isolated, separate",
    r"\bask(?:s|ed|ing)? back\b": "withdraw, revoke",
    r"\bput(?:s|ting)? back\b": "restore, requeue",
    r"\b(?:came|comes?|coming) back\b": "restored, requeued, rejoined",
    r"\bmend(?:s|ed|ing)?\b": "repair",
    r"\bnews\b": "updates",
    r"\b(?:that|which) (?:is|are) none\b": "invalid, missing, unknown",
    r"\bgives? (?:its|back) (?:its )?word\b": "confirms",
    r"\b(?:came|comes?|coming) to\b": "amounts to, results in, is",
    r"\b(?:those|somebody|jobs|nodes|a job|one) who\b": "the job (or node) that",
    r"\bwho (?:has|have|holds?|waits?|runs?|draws?|starts?)\b": "the job (or node) that",
    r"\blikewise\b": "say the thing again",
    r"\bgone\b": "removed, deleted, ended",
    r"\bfound\b": "name the thing",
    r"\bforese(?:e|es|en|eing)\b|\bforesight\b": "expected, forecast",
    r"\b(?:inquir(?:y|ies)|obstacles?|outlooks?|lanes?)\b": "question, constraint, forecast, queue",
    r"\bledger\b": "charges, prices.charges",
    r"\bmakes? room\b|\broom for\b": "is dropped, fits",
}
COMPILED: Final = {re.compile(pattern, re.IGNORECASE): pattern for pattern in PRIVATE}
