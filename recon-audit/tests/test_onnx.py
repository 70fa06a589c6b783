"""ONNX files: their initialisers are the network's weights, where the package onnx2torch is there;
else one sentence.
"""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from recon import cli
from recon.errors import ReconError
from recon_audit.networks import subject_of

NAMES = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")


@pytest.fixture
def module():
    net = nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 1))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(
                torch.randn(
                    parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())
                )
            )
    return net


def exported(module, path, how="gemm", middle="Relu", outside=False):
    """The file that exporters make of two dense layers: "gemm" as PyTorch's, "gemm turned" and
    "matmul" as others'.
    """
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnx2torch")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    state = dict(zip(NAMES, module.state_dict().values(), strict=True))
    held = [
        numpy_helper.from_array(
            (value.mT if how != "gemm" and value.dim() == 2 else value).contiguous().numpy(), name
        )
        for name, value in state.items()
    ]
    nodes, given = [], "x"
    for k, layer in enumerate(("fc1", "fc2")):
        weight, bias, last = f"{layer}.weight", f"{layer}.bias", "y" if k else "h"
        if how == "matmul":
            nodes.append(helper.make_node("MatMul", [given, weight], [f"{layer}.product"]))
            nodes.append(helper.make_node("Add", [f"{layer}.product", bias], [last]))
        else:
            attributes = {"transB": 1} if how == "gemm" else {}
            nodes.append(helper.make_node("Gemm", [given, weight, bias], [last], **attributes))
        if not k:
            nodes.append(helper.make_node(middle, [last], ["relu"]))
            given = "relu"
    kind = onnx.TensorProto.FLOAT
    ends = [
        helper.make_tensor_value_info(name, kind, [None, size])
        for name, size in (("x", 12), ("y", 1))
    ]
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], held))
    onnx.checker.check_model(model)
    onnx.save(model, str(path), save_as_external_data=outside, size_threshold=0)
    return path


@pytest.mark.parametrize("how", ["gemm", "gemm turned"])
def test_initialisers_are_the_weights_whichever_way_round_they_lie(how, module, tmp_path):
    subject = subject_of(exported(module, tmp_path / "net.onnx", how))
    x = torch.randn(7, 12, generator=torch.Generator().manual_seed(0))
    assert subject.arch == "Linear, ReLU, Linear" and len(subject.tensors) == 4
    torch.testing.assert_close(subject.module(x), module(x))


def test_weights_that_are_constants_are_refused(module, tmp_path):
    with pytest.raises(ReconError, match="as constants of its operations"):
        subject_of(exported(module, tmp_path / "net.onnx", "matmul"))


def test_weights_in_another_file_are_read_where_it_lies_beside(module, tmp_path):
    path = exported(module, tmp_path / "net.onnx", outside=True)
    x = torch.randn(7, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(subject_of(path).module(x), module(x))
    for file in tmp_path.iterdir():
        if file != path:
            file.unlink()
    with pytest.raises(ReconError, match=r"net\.onnx .* in a second file are not beside it: .*fc1"):
        subject_of(path)


@pytest.mark.parametrize("kind", [nn.Tanh, nn.Sigmoid, nn.ReLU])
def test_activations_are_read_off_the_graph(kind, module, tmp_path):
    module[1] = kind()
    middle = {"ReLU": "Relu"}.get(kind.__name__, kind.__name__)
    path = exported(module, tmp_path / "net.onnx", middle=middle)
    x = torch.randn(7, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(subject_of(path).module(x), module(x))


def test_an_operation_that_is_not_known_is_one_sentence(module, tmp_path):
    with pytest.raises(ReconError, match="not read here"):
        subject_of(exported(module, tmp_path / "net.onnx", middle="Det"))


def test_without_the_package_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    (tmp_path / "net.onnx").write_bytes(b"\x08\x08")
    assert (
        cli.main(["audit", "--weights", str(tmp_path / "net.onnx"), "--data", str(tmp_path)]) == 2
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "onnx2torch is not installed: pip install onnx2torch" in said
