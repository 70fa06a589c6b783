"""Which network is audited: a module, or a file from which one is built.

Of files of weights, dense layers with ReLU are known by their widths, and networks of torchvision
by their names.
"""

from __future__ import annotations

import copy
import hashlib
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.errors import ReconError, one_reason
from recon_audit.anatomy import CONVOLUTIONS
from recon_audit.files import PASS, State, from_graph, load_state
from recon_audit.images import Expected, printable

LARGEST = 1e15  # of a weight: squares and their sums must stay within float32
WRAPPING = (
    "DataParallel",
    "DistributedDataParallel",
    "GradSampleModule",
    "OptimizedModule",
    "AveragedModel",
)
#: torchvision's names that `auto` recognises by their tensors; any other of its names can be given
KNOWN = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg11_bn", "vgg16", "vgg16_bn",  # noqa: E501
         "alexnet", "mobilenet_v2", "densenet121", "squeezenet1_0", "squeezenet1_1")  # fmt: skip
PREFIXES = (
    "module.",
    "_orig_mod.",
    "_module.",
    "_fsdp_wrapped_module.",
    "model.",
    "net.",
    "encoder.",
    "backbone.",
)
# class weights, say
OF_THE_LOSS = re.compile(r"(criterion|loss|loss_fn|loss_func|loss_function)\.")
EMBEDDING = re.compile(r"embed|(^|\.)(emb|wte|wpe|tok|tokens?|vocab|lookup|codebook)\.")
ADAPTERS = re.compile(r"lora_[AB]|\.adapter|lora_embedding")


@dataclass(frozen=True)
class Subject:
    """
    Attributes:
        module: in evaluation mode, float32, on the CPU.
        file: its name, or the module's class.
        sha256: of the file, or of the tensors.
        arch: in words.
        tensors: which of the file was taken for which, ["w1 = 0.weight", …].
        assumed: whether a file of matrices was taken for dense layers with ReLU, which it does not
            say.
    """

    module: nn.Module
    file: str
    sha256: str
    arch: str
    tensors: list[str]
    assumed: bool = False

    @property
    def expected(self) -> Expected:
        """What the first layer tells of the images: the number of inputs, or of colours."""
        first = next(
            (
                part
                for part in self.module.modules()
                if isinstance(part, (nn.Linear, *CONVOLUTIONS))
            ),
            None,
        )
        return Expected(getattr(first, "in_features", None), getattr(first, "in_channels", None))


def subject_of(model: nn.Module | str | Path, arch: str | None = None) -> Subject:
    """The network to audit.

    ReconError for a file, a name, a shape or a number that does not fit.

    Args:
        model: a module, which is copied, or a file of weights (see `load_state`), or an ONNX file,
            which says what it is.
        arch: of a file of weights, "auto" or None to read it off the tensors, widths like
            3072-1000-1000-1 of dense layers with ReLU between them, or a name of torchvision.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ReconError(
            "TorchScript is a compiled program whose layers cannot be watched: pass the nn.Module"
        )
    if isinstance(model, nn.Module):
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise ReconError(
                "the network has lazy layers without weights: call it once on an image first"
            )
        module = _copy(model)
        digest = hashlib.sha256()
        for name, value in sorted(module.state_dict().items()):
            if isinstance(value, Tensor):
                digest.update(name.encode() + value.numpy().tobytes())
        kinds = dict.fromkeys(
            type(part).__name__ for part in module.modules() if not list(part.children())
        )
        subject = Subject(
            module, type(model).__name__, digest.hexdigest(), arch or ", ".join(kinds), []
        )
    elif isinstance(model, str | Path):
        path = Path(model)
        assumed = False
        if path.suffix.lower() == ".onnx" and path.is_file():
            module, words, tensors = from_graph(path)
        else:
            known = None if arch == "auto" else arch
            module, words, tensors = build_network(load_state(path), path, known)
            assumed = isinstance(module, nn.Sequential) and nn.ReLU in map(type, module)
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        subject = Subject(module, printable(path), checksum, words, tensors, assumed)
    else:
        raise ReconError(
            "the network must be an nn.Module or the path of its weights, not a"
            f" {type(model).__name__}"
        )
    _check_numbers(subject.module)
    # frozen after training, and not for it
    if not any(p.requires_grad for p in subject.module.parameters()):
        subject.module.requires_grad_(True)
    return subject


def _copy(model: nn.Module) -> nn.Module:
    """Without wrappers, in float32, on the CPU, in evaluation mode; ReconError where it cannot be
    copied.
    """
    # weight norm and spectral norm keep what they compute as a tensor that is no leaf, which
    # deepcopy refuses
    tensors = [
        value
        for part in model.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor)
    ]
    tensors += [p.grad for p in model.parameters() if p.grad is not None]
    from recon_audit.adapters import plain  # which builds on this file

    memo: dict[int, Any] = {id(tensor): tensor.detach().clone() for tensor in tensors}
    with one_reason("the network cannot be copied"):
        for part in model.modules():
            for hooks in (part._forward_hooks, part._backward_hooks, part._forward_pre_hooks):
                for hook in hooks.values():
                    if str(getattr(getattr(hook, "func", hook), "__module__", "")).startswith(
                        "opacus"
                    ):
                        # it is a method of the wrapper and would copy that
                        memo[id(hook)] = lambda *_: None
        return plain(_unwrap(copy.deepcopy(_unwrap(model), memo))).cpu().float().eval()


def _unwrap(model: nn.Module) -> nn.Module:
    """The module itself, where it is wrapped; wrapped parts of a copy are unwrapped in their
    places.
    """
    while type(model).__name__ in WRAPPING:
        model = next(model.children())
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if type(child).__name__ in WRAPPING:
                setattr(part, name, _unwrap(child))
    return model


def _check_numbers(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ReconError("the network has no weights: there is nothing to attack")
    for name, value in parameters.items():
        if not torch.isfinite(value).all():
            raise ReconError(f"tensor '{name}' holds numbers that are not finite floats")
        if value.numel() and (most := value.detach().abs().max()) > LARGEST:
            raise ReconError(f"tensor '{name}' holds numbers up to {most:.0e}, too large to square")
    if not any(value.any() for value in parameters.values()):
        raise ReconError("the weights are all zero: there is nothing to attack")


# --------------------------------------------------------------------------------- files of weights


def build_network(state: State, path: Path, arch: str | None) -> tuple[nn.Module, str, list[str]]:
    """(module, architecture in words, which tensor is which)."""
    if adapters := [name for name in state if ADAPTERS.search(name)]:
        mend = "say of which network with --base"
        raise ReconError(
            f"{path} holds adapters ({adapters[0]}) of layers that it does not hold: {mend}"
        )
    state = {name: value for name, value in state.items() if not OF_THE_LOSS.match(name)}
    if looked_up := [name for name in state if EMBEDDING.search(name.lower())]:
        raise ReconError(
            f"{path} holds an embedding ({looked_up[0]}), which is no dense layer: {PASS}"
        )
    if arch is None:
        arch = _infer_arch(state, path)
    make = _dense if re.match("[0-9]", arch) or not arch.isidentifier() else _from_torchvision
    return make(state, path, arch)


def _infer_arch(state: State, path: Path) -> str:
    """Widths where all weights are matrices that form one chain, else a name of `KNOWN`; ReconError
    otherwise.
    """
    matrices = [
        state[name]
        for name in sorted(state, key=_natural)
        if re.fullmatch(r"w[0-9]+|(.*\.)?weight", name) and state[name].dim() > 1
    ]
    if not matrices:
        held = ", ".join(sorted(state)[:6]) or "no weights at all"
        raise ReconError(f"{path} has no weights of layers in it, only {held}")
    unread = f"the architecture cannot be read off {path}"
    if all(matrix.dim() == 2 for matrix in matrices):
        _group(state, path)  # two names for one layer are no question of order
        for order in (matrices, matrices[::-1]):
            if all(a.shape[0] == b.shape[1] for a, b in pairwise(order)):
                return "-".join(
                    map(str, [order[0].shape[1], *(matrix.shape[0] for matrix in order)])
                )
        shapes = ", ".join("×".join(map(str, matrix.shape)) for matrix in matrices[:6])
        raise ReconError(
            f"{unread}: its matrices {shapes} form no chain in this order; say it with --arch"
        )
    stripped = _strip_prefixes(state)
    for name in KNOWN:
        network = on_meta(name)
        if set(_rename_head(stripped, network)) == set(network.state_dict()):
            return name
    raise ReconError(
        f"{unread}, which has convolutions: name it with --arch, such as resnet18, or {PASS}"
    )


def on_meta(name: str, classes: int = 1000) -> nn.Module:
    """torchvision's network of this name, without numbers: nothing is drawn."""
    from torchvision import models

    with torch.device("meta"):
        return models.get_model(name, weights=None, num_classes=classes)


def _head(module: nn.Module) -> str:
    """Name of the layer that gives the answers: the last dense one or convolution."""
    return [
        name for name, part in module.named_modules() if isinstance(part, nn.Linear | nn.Conv2d)
    ][-1]


def _rename_head(state: State, network: nn.Module) -> State:
    """With the tensors of the head by torchvision's name, where it stands alone in a `Sequential`
    of the owner's, as in `fc = Sequential(Dropout(), Linear(512, 2))`, or in the place of one.
    """
    head = _head(network)
    for place in (head, head.rpartition(".")[0]):
        held = [name for name in state if place and name.startswith(f"{place}.")]
        stems = {name.rpartition(".")[0] for name in held}
        if len(stems) == 1 and (stem := stems.pop()) != head:
            new = {name: f"{head}.{name.removeprefix(f'{stem}.')}" for name in held}
            return {new.get(name, name): value for name, value in state.items()}
    return state


def _strip_prefixes(state: State) -> State:
    """Without what wrappers put before every name."""
    while prefix := next(
        (p for p in PREFIXES if state and all(name.startswith(p) for name in state)), None
    ):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _from_torchvision(state: State, path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Of that name, with as many outputs as its last matrix has rows, and for as many colours as
    its first one.
    """
    from torchvision import models

    if arch not in models.list_models(module=models):
        raise ReconError(
            f"unknown architecture '{arch}': widths like 3072-1000-1000-1, or a name of torchvision"
        )
    own_names = on_meta(arch)
    state = _rename_head(_strip_prefixes(state), own_names)
    last = state.get(f"{_head(own_names)}.weight")
    if last is None:
        raise ReconError(f"{path} is no {arch}: it has no {_head(own_names)}.weight")
    stem = state.get("conv1.weight")
    if (
        stem is not None
        and arch.startswith(("resnet", "wide_resnet", "resnext"))
        and stem.shape[-1] == 3
    ):
        raise ReconError(
            f"{path} is a {arch} with a 3×3 stem, and no file says whether a max-pool follows:"
            f" {PASS}"
        )
    module = on_meta(arch, len(last))
    name, first = next((n, p) for n, p in module.named_modules() if isinstance(p, nn.Conv2d))
    weight = state.get(f"{name}.weight")
    if weight is not None and weight.dim() == 4:
        first.in_channels = weight.shape[1]
        shape = (len(first.weight), weight.shape[1], *first.weight.shape[2:])
        first.weight = nn.Parameter(torch.empty(shape, device="meta"))
    expected = module.to_empty(device="cpu").state_dict()
    odd = sorted(set(expected) ^ set(state)) or [
        name for name in expected if expected[name].shape != state[name].shape
    ]
    if odd:
        raise ReconError(
            f"{path} is no {arch}: {', '.join(odd[:4])} {'does' if len(odd) == 1 else 'do'} not fit"
        )
    module.load_state_dict(state)
    return module.float().eval(), arch, [f"all {len(state)} tensors by their names"]


def parse_arch(arch: str) -> tuple[int, ...]:
    """ "3072-1000-1000-1" -> (3072, 1000, 1000, 1); ReconError unless they are widths."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})+", arch):
        wanted = "widths like 3072-1000-1000-1 or a name of torchvision like resnet18"
        raise ReconError(f"the architecture must be {wanted}, not '{arch}'")
    return tuple(int(width) for width in arch.split("-"))


def _dense(state: State, path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Dense layers with ReLU between them; batch norm, where the file has it, after the dense layer
    before it.
    """
    widths = parse_arch(arch)
    stems, norms, foreign = _group(state, path)
    held = ", ".join(
        f"{name} {tuple(state[name].shape)}"
        for stem in sorted(stems, key=_natural)
        for name in stems[stem].values()
    )
    layers: list[nn.Module] = [nn.Flatten()]
    mapping = []
    for layer, (fan_in, fan_out) in enumerate(pairwise(widths), start=1):
        fits = [
            stem
            for stem, parts in stems.items()
            if "weight" in parts and state[parts["weight"]].shape == (fan_out, fan_in)
        ]
        if not fits:
            wanted = f"no weight of shape ({fan_out}, {fan_in}) for layer {layer} of {arch}"
            raise ReconError(f"{path} has {wanted}, only {held[:300] or 'no weights at all'}")
        parts = stems.pop(min(fits, key=_natural))
        if "bias" in parts and state[parts["bias"]].shape != (fan_out,):
            shape = tuple(state[parts["bias"]].shape)
            raise ReconError(
                f"the bias {parts['bias']} of {path} has shape {shape}, and {arch} needs"
                f" ({fan_out},)"
            )
        mapping += [f"{kind[0]}{layer} = {parts[kind]}" for kind in sorted(parts, reverse=True)]
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, bias="bias" in parts)
        linear.load_state_dict({kind: state[name] for kind, name in parts.items()})
        layers.append(linear)
        if layer < len(widths) - 1:
            sizes = {stem: len(norms[stem]["running_mean"]) for stem in sorted(norms, key=_natural)}
            if stem := next((stem for stem, size in sizes.items() if size == fan_out), ""):
                tensors = norms.pop(stem)
                norm = nn.BatchNorm1d(fan_out, affine="weight" in tensors)
                norm.load_state_dict(tensors, strict=False)
                layers.append(norm)
                mapping.append(f"batch norm after w{layer} = {stem}")
            layers.append(nn.ReLU())
    left = sorted([name for parts in stems.values() for name in parts.values()] + foreign)
    left += [f"{stem}.running_mean" for stem in norms]
    if left:
        mend = (
            "widths mean dense layers with ReLU between them; other networks go by torchvision's"
            " name"
        )
        raise ReconError(
            f"{path} holds tensors that {arch} has no place for: {', '.join(left[:6])} ({mend})"
        )
    return nn.Sequential(*layers).eval(), arch, mapping


def _group(
    state: State, path: Path
) -> tuple[dict[str, dict[str, str]], dict[str, State], list[str]]:
    """Names of weights and biases of dense layers by stem, tensors of batch norms by stem, and
    names of everything else.
    """
    normed = {name.rpartition(".")[0] for name in state if name.endswith(".running_mean")}
    norms: dict[str, State] = {stem: {} for stem in normed if f"{stem}.running_var" in state}
    stems: dict[str, dict[str, str]] = {}
    foreign = []
    for name, tensor in state.items():
        numbered = re.fullmatch(r"([wb])([0-9]+)", name)
        stem, kind = (
            (numbered[2], {"w": "weight", "b": "bias"}[numbered[1]])
            if numbered
            else name.rpartition(".")[::2]
        )
        if stem in norms:
            norms[stem][kind] = tensor
        elif kind not in ("weight", "bias") or (kind == "weight" and tensor.dim() != 2):
            foreign.append(name)
        elif not tensor.is_floating_point():
            raise ReconError(f"tensor '{name}' of {path} holds numbers that are not finite floats")
        elif kind in (parts := stems.setdefault(stem, {})):
            raise ReconError(
                f"{path} holds both {parts[kind]} and {name}, which mean the same layer: leave"
                " one out"
            )
        else:
            parts[kind] = name
    return stems, norms, foreign


def _natural(name: str) -> list[Any]:
    """Sorts layer.10 after layer.9; text and numbers alternate, so that like is compared with
    like.
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
