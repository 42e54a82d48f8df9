"""The page of the fields of Slurm's jobs, as Markdown: pure."""

from typing import Final

from services.slurm.model.fields import FIELDS, JobField, Treatment

_HEAD: Final = """\
# Fields of a job of Slurm

`coplace slurm fields` prints this page. It has every field that `squeue --json` shows of a job, in
Slurm 22.05 to 26.05. A field that is not here and says something is in the log once, and counts in
`coplace_slurm_unknown_fields`. How jobs are held and started is in [Slurm](how-to/slurm.md).

| Field | Who acts on it | What becomes of it |
|---|---|---|
"""
_WHO: Final = {
    Treatment.PLACED: "Coplace",
    Treatment.SLURM: "Slurm, on the nodes that were decided",
    Treatment.HELD: "nobody: it holds the job",
    Treatment.SHOWN: "",
}


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(_row(name, field) for name, field in FIELDS.items())


def _row(name: str, field: JobField) -> str:
    return f"| `{name}` | {_WHO[field.treatment]} | {field.what} |\n"
