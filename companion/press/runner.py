"""Run one notebook: parameters checked first, a fresh kernel of *this* interpreter, a clean page or
one clear line.

papermill does the executing; here is what it leaves to its caller: unknown parameters, habits of
the reader that would change outputs, dead kernels, and times that change with every run.
"""

import base64
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import nbformat
import numpy as np
from nbformat import NotebookNode
from PIL import Image

from recon.errors import ReconError, one_reason
from recon.store.files import atomic_path

KERNEL = "python3"
#: Every chapter's `parameters` cell assigns these; `recon book` sets them.
PARAMETERS = ("profile", "data", "seed", "device")
INJECTED = "injected-parameters"
#: A reader's habits that a kernel must not inherit: warnings that are errors, code that runs first,
#: asserts that are skipped.
HABITS = ("PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONOPTIMIZE")
#: mean squared error of 8-bit values, above which fewer colours would be seen: 40 dB
SEEN = 255**2 / 10**4


class ReconRunError(RuntimeError):
    """A run that was asked for correctly failed: one line, exit code 1."""


def read_notebook(path: Path) -> NotebookNode:
    """A valid notebook; ReconError for anything else."""
    if not path.is_file():
        raise ReconError(f"notebook {path} is missing, or is not a file")
    with one_reason(f"notebook {path} cannot be read"):
        nb = nbformat.read(path, as_version=4)
        nbformat.validate(nb)  # which reading only logs
    return nb


def check_parameters(notebook: Path) -> None:
    """ReconError unless the notebook's `parameters` cell sets all of `PARAMETERS`."""
    import papermill

    read_notebook(notebook)
    with one_reason(f"notebook {notebook.stem} cannot be read"):
        known = papermill.inspect_notebook(_literal(notebook))
    for name in PARAMETERS:
        if name not in known:
            raise ReconError(
                f"notebook {notebook.stem} does not set '{name}' in its parameters cell"
            )


def execute(source: Path, target: Path, parameters: Mapping[str, object]) -> NotebookNode:
    """Execute `source` in its own folder, writing to `target` as it goes, and return the cleaned,
    checked notebook.

    Call it inside `kernels`. Raises ReconRunError with one line; `target` then holds what was
    reached, for debugging.
    """
    import papermill

    check_parameters(source)
    try:
        nb = papermill.execute_notebook(
            _literal(source),
            _literal(target),
            parameters=dict(parameters),
            kernel_name=KERNEL,
            language="python",
            cwd=str(source.parent),
            progress_bar=False,
        )
    except Exception as error:  # papermill, nbclient and jupyter_client share no base class
        raise ReconRunError(f"chapter {source.stem} failed: {_reason(error)}") from error
    clean(nb)
    lighten(nb)
    if reason := fault(nb):
        raise ReconRunError(f"chapter {source.stem} failed: {reason}")
    return nb


@contextmanager
def kernels(folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Kernels started inside get `env` and run `sys.executable`, whatever the user has registered.

    Nor do they see how the user has set up IPython and matplotlib: `folder` is where they find an
    IPython profile without start-up files or settings, and matplotlib's own defaults.
    """
    from ipykernel.kernelspec import write_kernel_spec

    options = [
        "--IPKernelApp.log_level=CRITICAL",  # its transport and how it ends are no news
        # two dots a pixel; pages show them at half their size
        "--InlineBackend.figure_formats=retina",
    ]
    write_kernel_spec(folder / "kernels" / KERNEL, extra_arguments=options)  # of sys.executable
    (folder / "matplotlibrc").touch()
    defaults = {
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_PATH": os.pathsep.join(
            filter(None, (str(folder), os.environ.get("JUPYTER_PATH")))
        ),
        "MATPLOTLIBRC": str(folder / "matplotlibrc"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    with patch.dict(os.environ, defaults | dict(env)):
        for name in HABITS:
            os.environ.pop(name, None)
        yield


def clean(nb: NotebookNode) -> None:
    """Drop, in place, what changes with every run: papermill's and Jupyter's times and paths,
    stderr, random ids.
    """
    kernelspec = {"display_name": "Python 3", "language": "python", "name": KERNEL}
    nb.metadata = nbformat.from_dict(
        {"kernelspec": kernelspec, "language_info": {"name": "python"}}
    )
    nb.nbformat, nb.nbformat_minor = 4, 5
    for cell in nb.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        if INJECTED in cell.metadata.get("tags", []):
            cell["id"] = INJECTED
            cell.metadata["tags"] = [INJECTED, "remove-cell"]


def lighten(nb: NotebookNode) -> None:
    """In place: every PNG of a notebook's outputs through `lighter`."""
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                png = base64.b64decode(output.data["image/png"])
                output.data["image/png"] = base64.b64encode(lighter(png)).decode() + "\n"


def lighter(png: bytes) -> bytes:
    """The same picture with a palette of 255 colours where nobody sees that, else packed better;
    its size and dots an inch stay. The bytes as they are where that is no shorter.
    """
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGBA").quantize(255, Image.Quantize.FASTOCTREE)
        error = np.asarray(few.convert("RGBA"), float) - np.asarray(picture.convert("RGBA"), float)
        small, packed = few if np.square(error).mean() < SEEN else picture, io.BytesIO()
        small.save(packed, "PNG", optimize=True, dpi=picture.info.get("dpi", (200, 200)))
    return min(png, packed.getvalue(), key=len)


def fault(nb: NotebookNode) -> str | None:
    """The first reason why this is not a complete, error-free execution; None if it is one."""
    code = [
        (i, cell)
        for i, cell in enumerate(nb.cells)
        if cell.cell_type == "code" and cell.source.strip()
    ]
    if not code:
        return "it has no code cells"
    for i, cell in code:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return f"cell {i} holds an error: {output.ename}: {_one_line(output.evalue)}"
        if cell.get("execution_count") is None:
            return f"cell {i} was not executed"
    return None


def save(nb: NotebookNode, path: Path) -> None:
    """Write atomically: `path` is never half a notebook."""
    with atomic_path(path) as temporary:
        temporary.write_text(nbformat.writes(nb) + "\n", encoding="utf-8")


def _literal(path: Path) -> str:
    """papermill fills parameters into braces; those of a folder's name are to stay."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _reason(error: Exception) -> str:
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):  # its index counts the injected cell
        return f"cell {error.cell_index}: {error.ename}: {_one_line(error.evalue)}"
    return f"{type(error).__name__}: {_one_line(str(error))}"


def _one_line(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())[:300]
