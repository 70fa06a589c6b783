"""Files and words that no audit can be made of: one sentence and exit code 2, no traceback, no
wait, no computing.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from toys import ANY, FOLDER, TENSORS

from recon import cli
from recon.errors import ReconError
from recon_audit import audit as audit_module

pytestmark = pytest.mark.slow

N, SIDE = 8, 4
DIM = 3 * SIDE**2
#: option -> its file
FILES = {
    "--weights": "w.safetensors",
    "--weights .pt": "w.pt",
    "--weights .onnx": "w.onnx",
    "--start": "start.pt",
    "--data": "train.npz",
    "--held-out": "held_out.npz",
    "--labels": "labels.csv",
}
#: what still is a file of its kind: other numbers, a label less
FINE = {("--weights", "a value's bit flipped"), ("--weights", "last byte cut")}
CASES = [
    (option, damage, do)
    for option in FILES
    for damage, do in ((ANY | FOLDER | TENSORS) if option == "--weights" else ANY | FOLDER).items()
    if (option, damage) not in FINE
]
WORDS = {
    "--arch": [
        "",
        "0",
        "-1",
        "48-8",
        "48-8-0",
        "48--8-1",
        "48-8-1-",
        "1e9-1",
        "resnet0",
        "../../etc",
        "a\nb",
    ],
    "--mean": ["", "x", "0.5/", "/0.5", "nan/1", "0.5/0", "0.5,0.5/1", "1/2/3"],
    "--attacks": [",", "magic", "rows,magic", "rows rows", "ROWS"],
    "--shadows": ["-1", "1", "x", "1e9", ""],
    "--canaries": ["-1", "x", "0.5"],
    "--seed": ["-1", "x", "1.5", ""],
    "--profile": ["huge", ""],
    "--device": ["tpu", "cuda:99", ""],
    "--labels": ["nowhere.csv", "/dev/null", "/", ""],
    "--fail-on": ["magic", ""],
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Good ones of every kind; whoever gets as far as an audit is told so."""
    net = torch.nn.Sequential(torch.nn.Linear(DIM, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    for name in ("w.pt", "start.pt"):
        torch.save(net.state_dict(), tmp_path / name)
    (tmp_path / "w.onnx").write_bytes(b"\x08\x07")
    lines = ""
    for seed, part in enumerate(("train", "held_out")):
        images = np.random.default_rng(seed).integers(0, 256, (N, 3, SIDE, SIDE), dtype=np.uint8)
        np.savez(tmp_path / f"{part}.npz", images=images)
        lines += "".join(f"{part}[{row}],{row % 2}\n" for row in range(N))
    (tmp_path / "labels.csv").write_text(lines)

    def stop(case, *_):
        raise ReconError(f"as far as an audit of {len(case.train)}")

    monkeypatch.setattr(audit_module, "audit_case", stop)
    return tmp_path


def command(files, option, word=None):
    usual = ("--weights", "--data", "--held-out", "--labels")
    values = {name: files / FILES[name] for name in usual}
    values |= {"--out": files / "out", "--mean": "none", "--device": "cpu"}
    values[option.split()[0]] = files / FILES[option] if word is None else word
    return ["audit", *(f"{name}={value}" for name, value in values.items())]


def said(capsys, arguments):
    """What is printed for exit code 2."""
    try:
        code = cli.main(arguments)
    except SystemExit as error:  # of argparse
        code = error.code
    told = capsys.readouterr()
    assert code == 2, told
    assert told.out == "" and "Traceback" not in told.err
    return told.err


def test_the_files_are_good_but_for_what_is_done_to_them(files, capsys):
    for option in ("--weights", "--weights .pt", "--start", "--data", "--held-out", "--labels"):
        assert "as far as an audit of 8" in said(capsys, command(files, option))


@pytest.mark.parametrize(
    ("option", "damage", "do"), CASES, ids=[f"{option} {damage}" for option, damage, _ in CASES]
)
def test_a_damaged_file_is_one_sentence(files, capsys, option, damage, do):
    do(files / FILES[option])
    told = said(capsys, command(files, option))
    assert told.count("\n") == 1 and "as far as an audit" not in told and len(told) < 600


@pytest.mark.parametrize(
    ("option", "word"), [(option, word) for option in WORDS for word in WORDS[option]]
)
def test_words_that_mean_nothing_are_one_sentence(files, capsys, option, word):
    told = said(capsys, command(files, option, word))
    assert (
        told.strip().splitlines()[-1].startswith(("recon", "error"))
        and "as far as an audit" not in told
    )
