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
# In prose, with what to write in its place: messages, docstrings, comments and documents.
PRIVATE: Final = {
    r"told|tells?|telling": "published, reported, notified; shows",
    r"weigh(?:s|ed|ing)?": "evaluate, compare",
    r"holdings?": "allocations",
    r"standings?": "state",
    r"stands?|stood": "is; is suspended; is stuck; means",
    r"apart": "isolated, separate",
    r"ask(?:s|ed|ing)? back": "withdraw, revoke",
    r"put(?:s|ting)? back": "restore, requeue",
    r"(?:came|comes?|coming) back": "restored, requeued, rejoined",
    r"mend(?:s|ed|ing)?": "repair",
    r"news": "updates",
    r"(?:that|which) (?:is|are) none": "invalid, missing, unknown",
    r"gives? (?:its|back) (?:its )?word": "confirms",
    r"(?:came|comes?|coming) to": "amounts to, results in, is",
    r"(?:those|somebody|jobs|nodes|a job|one) who": "the job (or node) that",
    r"who (?:has|have|holds?|waits?|runs?|draws?|starts?)": "the job (or node) that",
    r"likewise": "say the thing again",
    r"gone": "removed, deleted, ended",
    r"found": "name the thing",
    r"foresight|foresees?|foreseen|foreseeing": "expected, forecast",
    r"inquir(?:y|ies)|obstacles?|outlooks?|lanes?": "question, constraint, forecast, queue",
    r"ledger": "charges, prices.charges",
    r"makes? room|room for": "is dropped, fits",
}
ANY: Final = re.compile(rf"\b(?:{'|'.join(PRIVATE)})\b", re.IGNORECASE)
COMPILED: Final = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in PRIVATE}
# A docstring of a function begins with a verb, so with none of these.
NO_VERBS: Final = frozenset(
    (
        *("a", "after", "again", "all", "always", "an", "and", "another", "as", "at", "because"),
        *("before", "between", "both", "but", "by", "each", "either", "every", "everything"),
        *("false", "few", "first", "for", "from", "how", "if", "in", "it", "its", "itself", "last"),
        *("likewise", "many", "more", "most", "neither", "no", "nobody", "none", "not", "nothing"),
        *("of", "on", "one", "only", "or", "other", "others", "our", "over", "several", "since"),
        *("so", "some", "somebody", "something", "such", "that", "the", "their", "then", "there"),
        *("these", "they", "this", "those", "to", "true", "two", "under", "until", "we", "what"),
        *("when", "where", "whether", "which", "while", "who", "whole", "whom", "whose", "why"),
        *("with", "within", "without", "you"),
        *("accounts", "applications", "budgets", "choices", "clusters", "coefficients", "column"),
        *("columns", "cores", "entries", "equation", "equations", "events", "facts", "ids", "job"),
        *("jobs", "keys", "kinds", "limits", "lower", "measures", "meters", "milliwatts"),
        *("node", "nodes", "number", "orders", "outcomes", "partitions", "passes", "power"),
        *("predicted", "predictions", "publications", "records", "row", "rows", "shutters"),
        *("time", "topics", "units", "values", "waiting", "watts"),
    )
)
