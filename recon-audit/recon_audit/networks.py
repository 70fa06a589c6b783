"""Which network is audited: a module, or a file from which one is built.

Of files of weights, dense layers with ReLU are known by their widths, and networks of torchvision
by their names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise, permutations, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.errors import ReconError, one_reason
from recon.nets.network import Shape
from recon_audit.anatomy import CONVOLUTIONS
from recon_audit.files import PASS, State, digest, load_state
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
WEIGHT = re.compile(r"w[0-9]+|(.*\.)?weight")
ADAPTERS = re.compile(r"lora_[AB]|\.adapter|lora_embedding")


@dataclass(frozen=True)
class Plan:
    """What a file leaves open of its network.

    Attributes:
        axes: for each question, words -> what `build` is given; first what is assumed.
        build: (module, architecture in words, which tensor is which) of one answer to each.
        guessed: whether nobody has said what dense layers form: a network that is read otherwise
            may answer all images rightly, too.
    """

    axes: tuple[dict[str, Any], ...]
    build: Callable[..., tuple[nn.Module, str, list[str]]]
    guessed: bool = False


@dataclass(frozen=True)
class Subject:
    """
    Attributes:
        module: in evaluation mode, float32, on the CPU.
        file: its name, or the module's class.
        sha256: of the file, or of the tensors.
        arch: in words.
        tensors: which of the file was taken for which, ["w1 = 0.weight", …].
        plan: of a file of weights; words: by which answers to what it leaves open it was read.
    """

    module: nn.Module
    file: str
    sha256: str
    arch: str
    tensors: list[str]
    plan: Plan = Plan((), lambda: (nn.Identity(), "", []))
    words: tuple[str, ...] = ()

    @property
    def expected(self) -> Expected:
        """What the first layer tells of the images: the number of inputs, or of colours."""
        layers = (nn.Linear, *CONVOLUTIONS)
        first = next((part for part in self.module.modules() if isinstance(part, layers)), None)
        axes = len(getattr(first, "kernel_size", (1, 1)))
        channels = getattr(first, "in_channels", None)
        return Expected(getattr(first, "in_features", None), channels, axes)

    def read(self, words: Sequence[str]) -> Subject:
        """With the network that the file is by these answers to what it leaves open."""
        if not self.plan.axes:
            return replace(self, module=copy.deepcopy(self.module))
        pairs = zip(self.plan.axes, words, strict=True)
        answers = (axis.get(word, axis[_first(axis)]) for axis, word in pairs)
        module, arch, tensors = self.plan.build(*answers)
        module = _checked(module)
        return replace(self, module=module, arch=arch, tensors=tensors, words=tuple(words))


def subject_of(model: nn.Module | str | Path, arch: str | None = None) -> Subject:
    """The network to audit.

    ReconError for a file, a name, a shape or a number that does not fit.

    Args:
        model: a module, which is copied, or a file of weights (see `load_state`).
        arch: of a file of weights, "auto" or None to read it off the tensors, widths like
            3072-1000-1000-1 of dense layers with ReLU between them, or a name of torchvision.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ReconError(
            "TorchScript is a compiled program whose layers cannot be watched: pass the nn.Module"
        )
    if isinstance(model, nn.Module):
        with one_reason("the network's weights cannot be read"):
            module = _checked(_copy(model))
        state = sorted(module.state_dict().items())
        held = (n.encode() + v.numpy().tobytes() for n, v in state if isinstance(v, Tensor))
        parts = [type(part).__name__ for part in module.modules() if not list(part.children())]
        words = arch or ", ".join(dict.fromkeys(parts))
        return Subject(module, type(model).__name__, digest(*held), words, [])
    if not isinstance(model, str | Path):
        raise ReconError(
            "the network must be an nn.Module or the path of its weights, not a"
            f" {type(model).__name__}"
        )
    path = Path(model)
    plan = plan_state(load_state(path), path, None if arch == "auto" else arch)
    checksum = digest(path.read_bytes())
    read = Subject(nn.Identity(), printable(path), checksum, "", [], plan)
    return read.read([*map(_first, plan.axes)])


def _first(axis: dict[str, Any]) -> str:
    return next(iter(axis))


def _copy(model: nn.Module) -> nn.Module:
    """Without wrappers, in float32, on the CPU, in evaluation mode; ReconError where it cannot be
    copied.
    """
    from recon_audit.adapters import plain  # which builds on this file

    # weight norm and spectral norm keep what they compute as a tensor that is no leaf, which
    # deepcopy refuses
    tensors = [value for part in model.modules() for value in vars(part).values()]
    tensors += [p.grad for p in model.parameters()]
    memo: dict[int, Any] = {
        id(held): held.detach().clone() for held in tensors if isinstance(held, Tensor)
    }
    with one_reason("the network cannot be copied"):
        for part in model.modules():
            for hooks in (part._forward_hooks, part._backward_hooks, part._forward_pre_hooks):
                for hook in hooks.values():
                    where = getattr(getattr(hook, "func", hook), "__module__", "")
                    if str(where).startswith("opacus"):  # of the wrapper, which it would copy
                        memo[id(hook)] = lambda *_: None
        module = copy.deepcopy(_unwrap(model), memo)
        _replace_parts(module, lambda part: type(part).__name__ in WRAPPING, _unwrap)
        _replace_parts(
            module, lambda part: isinstance(getattr(part, "lora_A", None), nn.ModuleDict), plain
        )
        return module.cpu().float().eval()


def _unwrap(model: nn.Module) -> nn.Module:
    """The module itself, where it is wrapped."""
    while type(model).__name__ in WRAPPING:
        model = next(model.children())
    return model


def _replace_parts(
    module: nn.Module, is_one: Callable[[nn.Module], bool], by: Callable[[nn.Module], nn.Module]
) -> None:
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if is_one(child):
                setattr(part, name, by(child))


def _checked(module: nn.Module) -> nn.Module:
    """With weights that can be attacked; all are trained, where all were frozen after training."""
    quantised = [part for part in module.modules() if ".quantized" in type(part).__module__]
    parameters = dict(module.named_parameters())
    if quantised or any(not value.is_floating_point() for value in parameters.values()):
        raise ReconError(
            "the network is quantised, and whole numbers cannot be attacked: pass the network in"
            " floating point that it was made of"
        )
    for name, value in parameters.items():
        if not value.isfinite().all():
            raise ReconError(f"tensor '{name}' holds numbers that are not finite floats")
        if value.numel() and (most := value.abs().max()) > LARGEST:
            raise ReconError(f"tensor '{name}' holds numbers up to {most:.0e}, too large to square")
    if not any(value.any() for value in parameters.values()):
        raise ReconError("the network has no weights but zeros: there is nothing to attack")
    if not any(value.requires_grad for value in parameters.values()):
        module.requires_grad_(True)
    return module


# --------------------------------------------------------------------------------- files of weights

KINDS = (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus, nn.Mish, nn.ReLU6, nn.Hardtanh)
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "": nn.ReLU,
    **{f"with {kind.__name__} in the place of ReLU": kind for kind in KINDS},
    **{
        f"with LeakyReLU({slope}) in the place of ReLU": partial(nn.LeakyReLU, slope)
        for slope in (0.01, 0.1, 0.2)
    },
}
MOST_ORDERS = 5040  # of layers, that are looked at
#: of parts (i, j) of a network: what i is given is added to what j answers
Spans = tuple[tuple[int, int], ...]
#: of a ResNet: the stride of its first convolution, and whether a max-pool follows; with one of
#: 3 × 3 the last is usual
STEMS = ((2, True), (1, True), (2, False), (1, False))
NUMBERED = re.compile(r"([wb])([0-9]+)")


def plan_state(state: State, path: Path, arch: str | None) -> Plan:
    """Of one state dict."""
    if adapters := [name for name in state if ADAPTERS.search(name)]:
        mend = "say of which network with --base"
        raise ReconError(
            f"{path} holds adapters ({adapters[0]}) of layers that it does not hold: {mend}"
        )
    weights = {name: value for name, value in state.items() if WEIGHT.fullmatch(name)}
    for name, value in weights.items():
        if not value.is_floating_point():
            raise ReconError(
                f"{path} holds {name} ({value.dtype}): whole numbers, as of a quantised network,"
                " are not finite floats: give the weights that were quantised"
            )
    if arch is not None and arch.isidentifier():
        return _from_torchvision(state, path, arch)
    if arch is not None or all(value.dim() <= 2 for value in weights.values()):
        return _dense(state, path, arch)
    names = set(strip_prefixes(state))
    for name in KNOWN:
        if set(on_meta(name).state_dict()) == names:
            return _from_torchvision(state, path, name)
    raise ReconError(
        f"the architecture cannot be read off {path}, which has convolutions: name it with --arch,"
        f" such as resnet18, or {PASS}"
    )


def on_meta(name: str, classes: int = 1000) -> nn.Module:
    """torchvision's network of this name, without numbers: nothing is drawn."""
    from torchvision import models

    with torch.device("meta"):
        return models.get_model(name, weights=None, num_classes=classes)


def strip_prefixes(state: State) -> State:
    """Without what wrappers put before every name."""
    while state and (
        prefix := next((p for p in PREFIXES if all(n.startswith(p) for n in state)), "")
    ):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _from_torchvision(state: State, path: Path, arch: str) -> Plan:
    """Of that name, with as many outputs as its last matrix has rows, and for as many colours as
    its first one. Open are its activations, and the stem of a ResNet.
    """
    with one_reason(f"unknown architecture '{arch}', no widths and no name of torchvision"):
        state, there = strip_prefixes(state), on_meta(arch)
    head = [n for n, part in there.named_modules() if isinstance(part, nn.Linear | nn.Conv2d)][-1]
    stems: dict[str, Any] = {"": None}
    with one_reason(f"{path} is no {arch}, it lacks"):
        outputs = len(state[f"{head}.weight"])
        if hasattr(there, "maxpool") and "resn" in arch:
            order = STEMS[::-1] if state["conv1.weight"].shape[-1] == 3 else STEMS
            stems = {
                f"with stride {by} and {'no ' * (not pool)}max-pool": (by, pool)
                for by, pool in order
            }

    def build(stem: tuple[int, bool] | None, activation: Callable[[], nn.Module]) -> Any:
        module = on_meta(arch, outputs)
        name, first = next((n, p) for n, p in module.named_modules() if isinstance(p, nn.Conv2d))
        weight = state.get(f"{name}.weight", first.weight)
        first.in_channels, first.weight = weight.shape[1], nn.Parameter(weight.to("meta"))
        if stem:
            first.kernel_size = size = weight.shape[2:]
            first.stride, first.padding = (stem[0], stem[0]), (size[0] // 2, size[1] // 2)
            module.maxpool = module.maxpool if stem[1] else nn.Identity()
        module.to_empty(device="cpu")
        with one_reason(f"{path} is no {arch}"):
            module.load_state_dict(state)
        _replace_parts(module, lambda part: isinstance(part, nn.ReLU), lambda _: activation())
        return module.float().eval(), arch, [f"all {len(state)} tensors by their names"]

    return Plan((stems, ACTIVATIONS), build)


def parse_arch(arch: str) -> Shape:
    """ "3072-1000-1000-1" -> (3072, 1000, 1000, 1); ReconError unless they are widths."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})+", arch):
        wanted = "widths like 3072-1000-1000-1 or a name of torchvision like resnet18"
        raise ReconError(f"the architecture must be {wanted}, not '{arch}'")
    return tuple(int(width) for width in arch.split("-"))


def _dense(state: State, path: Path, arch: str | None) -> Plan:
    """Dense layers with an activation between them. Open are what is added past layers, and the
    activation; ReconError where neither widths nor names tell the order.
    """
    layers: dict[str, nn.Linear] = {}
    for stem, tensors in _stems(state, path).items():
        with one_reason(
            f"{path} holds {stem} ({', '.join(tensors)}), which dense layers have no place for:"
            f" {PASS}"
        ):
            rows, columns = tensors["weight"].shape
            layers[stem] = nn.utils.skip_init(nn.Linear, columns, rows, bias="bias" in tensors)
            layers[stem].load_state_dict(tensors)
    wanted = arch and parse_arch(arch)
    orders = [
        order
        for order in islice(permutations(layers), MOST_ORDERS)
        if order
        and wanted in (None, _widths(layers, order))
        and all(layers[a].out_features == layers[b].in_features for a, b in pairwise(order))
    ]
    if not orders:
        raise ReconError(
            f"{path} holds matrices, or none at all, that form no chain {arch or ''}, or one more"
            f" that it has no place for: {PASS}"
        )
    # their names may number them
    moved = {
        stem for chain in orders for stem, k in zip(chain, orders[0], strict=True) if stem != k
    }
    if len({re.sub("[0-9]+", "", stem) for stem in moved}) > 1:
        names = ", ".join(sorted(moved))
        raise ReconError(f"{path} does not tell the order of its layers {names}: {PASS}")
    order, widths = orders[0], _widths(layers, orders[0])

    def build(added: Spans, kind: Callable[[], nn.Module]) -> Any:
        parts: list[nn.Module] = [nn.Flatten()]
        for stem in order:
            parts += [copy.deepcopy(layers[stem]), kind()]
        tensors = [
            f"{name[0]}{k} = {stem}.{name}"
            for k, stem in enumerate(order, 1)
            for name, _ in layers[stem].named_parameters()
        ]
        return Dense(parts[:-1], added).eval(), "-".join(map(str, widths)), tensors

    return Plan((_skips(widths), ACTIVATIONS), build, arch is None)


def _stems(state: State, path: Path) -> dict[str, State]:
    """Tensors by their layers, as weight and bias; ReconError where two are one."""
    held: dict[str, State] = {}
    for name, value in state.items():
        plain = NUMBERED.fullmatch(name)
        stem, _, kind = (f"{plain[2]}.{plain[1]}" if plain else name).rpartition(".")
        kind = {"w": "weight", "b": "bias"}.get(kind, kind)
        if held.setdefault(stem, {}).setdefault(kind, value) is not value:
            raise ReconError(f"{path} holds {name} twice, which mean the same layer: leave one out")
    return held


def _widths(layers: dict[str, nn.Linear], order: Sequence[str]) -> Shape:
    return (layers[order[0]].in_features, *(layers[stem].out_features for stem in order))


def _skips(widths: Sequence[int]) -> dict[str, Spans]:
    """What may be added past one to three hidden layers that answer as many numbers as they are
    given: around some of them, and around all that do not overlap; after the activation or before.
    """
    ways: dict[str, Spans] = {}
    for size, after in product((1, 2, 3), (0, 1)):
        starts = [k for k in range(len(widths) - 1 - size) if widths[k] == widths[k + size]]
        for at in (*([k] for k in starts), starts[::size], starts[1::size]):
            around = ", ".join(f"{k + 1} to {k + size}" for k in at)
            words = f"with skip connections {('into', 'past')[after]} the activations around layers"
            ways[f"{words} {around}"] = tuple((2 * k + 1, 2 * (k + size) - 1 + after) for k in at)
    return {"": ()} | {words: added for words, added in ways.items() if added}


class Dense(nn.Sequential):
    """Parts in their order; for each pair (i, j) of `added`, what part i is given is added to what
    part j answers.
    """

    def __init__(self, parts: Sequence[nn.Module], added: Spans) -> None:
        super().__init__(*parts)
        self.added = added

    def forward(self, x: Tensor) -> Tensor:
        """Answers (n, K) to images x (n, C, H, W)."""
        given = []
        for place, part in enumerate(self):
            given.append(x)
            x = part(x)
            x = sum((given[i] for i, j in self.added if j == place), x)
        return x
