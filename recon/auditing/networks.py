"""Which network is audited: a module, or a file from which one is built; and which attacks its layers allow.

The module is run on random inputs of the images' shape with a hook at every layer.  What a layer is given, and not what
it is called, decides: rows of weights are mixtures of images only where the layer is given whole images.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.auditing.files import load_state
from recon.errors import ReconError
from recon.nets.mlp import MLP, Params

LARGE = (-100.0, 10.0, 1000.0)  # times the inputs: logits leave [0, 1]
LARGEST = 1e15  # of a weight: squares and their sums must stay within float32
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
#: torchvision's names that `auto` recognises by their tensors; any other of its names can be given
KNOWN = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg11_bn", "vgg16", "vgg16_bn",
         "alexnet", "mobilenet_v2", "densenet121", "squeezenet1_0", "squeezenet1_1")  # fmt: skip
PREFIXES = ("module.", "_orig_mod.", "_module.", "_fsdp_wrapped_module.", "model.", "net.", "encoder.", "backbone.")
WRAPPERS = ("module", "_module", "_orig_mod")  # attributes of DataParallel, GradSampleModule, torch.compile
ADAPTERS = re.compile(r"lora_[AB]|\.adapter|lora_embedding")


@dataclass(frozen=True)
class Subject:
    """module: in evaluation mode, float32, on the CPU · file: its name, or the module's class · sha256: of the file,
    or of the tensors · arch: in words · tensors: which of the file was taken for which, ["w1 = 0.weight", …]."""

    module: nn.Module
    file: str
    sha256: str
    arch: str
    tensors: list[str]

    @property
    def dim(self) -> int | None:
        """Number of inputs, where the first layer is dense and tells."""
        first = next((part for part in self.module.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
        return first.in_features if isinstance(first, nn.Linear) else None

    @property
    def channels(self) -> int | None:
        """Colours of the images, where the first layer is a convolution and tells."""
        first = next((part for part in self.module.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
        return first.in_channels if isinstance(first, CONVOLUTIONS) else None


def subject_of(model: nn.Module | str | Path, arch: str | None = None) -> Subject:
    """The network to audit.

    model: a module, which is copied, or a file of weights (see `load_state`) · arch: of a file, "auto" or None to read
    it off the tensors, widths like 3072-1000-1000-1 of dense layers with ReLU between them, or a name of torchvision.
    ReconError for a file, a name, a shape or a number that does not fit.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ReconError(
            "a TorchScript module is a compiled program whose layers cannot be watched: pass the nn.Module"
        )
    if isinstance(model, nn.Module):
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise ReconError("the network has lazy layers without weights: call it once on an image first")
        module = _copied(model)
        named = module.state_dict()
        digest = hashlib.sha256()
        for name in sorted(named):
            digest.update(name.encode() + named[name].detach().cpu().contiguous().view(-1).numpy().tobytes())
        arch = arch or ", ".join(
            dict.fromkeys(type(part).__name__ for part in module.modules() if not list(part.children()))
        )
        subject = Subject(module, type(model).__name__, digest.hexdigest(), arch, [])
    elif isinstance(model, str | Path):
        path = Path(model)
        module, found, tensors = built(load_state(path), path, None if arch in (None, "auto") else arch)
        subject = Subject(module, printable(path), hashlib.sha256(path.read_bytes()).hexdigest(), found, tensors)
    else:
        raise ReconError(f"the network must be an nn.Module or the path of its weights, not a {type(model).__name__}")
    _check_numbers(subject.module)
    return subject


def _copied(model: nn.Module) -> nn.Module:
    """Without wrappers, in float32, on the CPU, in evaluation mode; ReconError where it cannot be copied."""
    while type(model).__name__ in ("DataParallel", "DistributedDataParallel", "GradSampleModule", "OptimizedModule"):
        model = next(getattr(model, name) for name in WRAPPERS if isinstance(getattr(model, name, None), nn.Module))
    # weight norm and spectral norm keep what they compute as a tensor that is no leaf, which deepcopy refuses
    kept = [value for part in model.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    try:
        return copy.deepcopy(model, {id(each): each.detach().clone() for each in kept}).cpu().float().eval()
    except Exception as error:  # whatever a stranger's module says to being copied
        raise ReconError(f"the network cannot be copied: {' '.join(str(error).split())[:150]}") from error


def printable(path: Path | str) -> str:
    """The last part of a path for a reader: bytes that are no UTF-8, control characters and marks that turn the
    direction of writing are escaped.

    >>> printable("a\u202egnp.exe")
    'a\\\\u202egnp.exe'
    """
    text = str(path.name if isinstance(path, Path) else path)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _check_numbers(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ReconError("the network has no weights: there is nothing to attack")
    for name, value in parameters.items():
        if not torch.isfinite(value).all():
            raise ReconError(f"tensor '{name}' holds numbers that are not finite floats")
        if value.numel() and value.detach().abs().max() > LARGEST:
            raise ReconError(
                f"tensor '{name}' holds numbers up to {value.detach().abs().max():.0e}, too large to square"
            )
    if not any(value.any() for value in parameters.values()):
        raise ReconError("the weights are all zero: there is nothing to attack")


# ----------------------------------------------------------------------------------------------------- from files


def built(state: dict[str, Tensor], path: Path, arch: str | None) -> tuple[nn.Module, str, list[str]]:
    """(module, architecture in words, which tensor is which)."""
    if adapters := [name for name in state if ADAPTERS.search(name)]:
        raise ReconError(
            f"{path} holds adapters ({adapters[0]}), which are added to layers that it does not hold: merge them "
            "(merge_and_unload() of PEFT) and pass the merged module"
        )
    if looked_up := [name for name in state if "embed" in name.lower()]:
        raise ReconError(f"{path} holds an embedding ({looked_up[0]}), which is no dense layer: pass the module itself")
    if arch is None:
        arch = _inferred(state, path)
    if re.match("[0-9]", arch) or not arch.isidentifier():
        return _dense(state, path, arch)
    return _from_torchvision(state, path, arch)


def parse_arch(arch: str) -> tuple[int, ...]:
    """ "3072-1000-1000-1" -> (3072, 1000, 1000, 1); ReconError unless they are widths."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})+", arch):
        raise ReconError(
            f"the architecture must be widths like 3072-1000-1000-1 or a name of torchvision like resnet18, not "
            f"'{arch}'"
        )
    return tuple(int(width) for width in arch.split("-"))


def _inferred(state: dict[str, Tensor], path: Path) -> str:
    """Widths where all weights are matrices that form one chain, else a name of `KNOWN`; ReconError otherwise."""
    matrices = [
        state[name] for name in sorted(state, key=_natural) if _kind(name) == "weight" and state[name].dim() > 1
    ]
    if matrices and all(each.dim() == 2 for each in matrices):
        _grouped(state, path)  # two names for one layer are no question of order
        for order in (matrices, matrices[::-1]):
            if all(a.shape[0] == b.shape[1] for a, b in zip(order, order[1:], strict=False)):
                return "-".join(map(str, [order[0].shape[1], *(each.shape[0] for each in order)]))
        raise ReconError(
            f"the architecture cannot be read off {path}: its matrices {_shapes(matrices)} form no chain in the order "
            "of their names; say it with --arch"
        )
    if not matrices:
        raise ReconError(
            f"{path} has no weights of layers in it, only {', '.join(sorted(state)[:6]) or 'no weights at all'}"
        )
    keys = set(_stripped(state))
    for name in KNOWN:
        if keys == _keys_of(name):
            return name
    raise ReconError(
        f"the architecture cannot be read off {path}, which has {len(matrices)} layers with convolutions: name it with "
        "--arch, such as resnet18, or pass the module itself to recon.audit in Python"
    )


def _shapes(tensors: list[Tensor]) -> str:
    return ", ".join("×".join(map(str, each.shape)) for each in tensors[:6])


def _keys_of(name: str) -> set[str]:
    from torchvision import models

    with torch.device("meta"):
        return set(models.get_model(name, weights=None).state_dict())


def _stripped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without what wrappers put before every name."""
    while prefix := next((p for p in PREFIXES if state and all(name.startswith(p) for name in state)), None):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _from_torchvision(state: dict[str, Tensor], path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Of that name, with as many outputs as its last matrix has rows."""
    from torchvision import models

    if arch not in models.list_models(module=models):
        raise ReconError(f"unknown architecture '{arch}': widths like 3072-1000-1000-1, or a name of torchvision")
    state = _stripped(state)
    last = next(
        (state[name] for name in reversed(list(state)) if _kind(name) == "weight" and state[name].dim() > 1), None
    )
    if last is None:
        raise ReconError(f"{path} has no weights of layers in it")
    # construction draws a random start, which is loaded over: on the meta device nothing is drawn
    with torch.device("meta"):
        module = models.get_model(arch, weights=None, num_classes=len(last))
        stem = state.get("conv1.weight")
        if stem is not None and arch.startswith(("resnet", "wide_resnet", "resnext")) and stem.shape[-1] == 3:
            raise ReconError(
                f"{path} is a {arch} with a 3×3 stem, and no file says whether a max-pool follows: pass the module"
            )
    module = module.to_empty(device="cpu")
    own = module.state_dict()
    odd = sorted(set(own) ^ set(state)) or [name for name in own if own[name].shape != state[name].shape]
    if odd:
        raise ReconError(f"{path} is no {arch}: {', '.join(odd[:4])} {'does' if len(odd) == 1 else 'do'} not fit")
    module.load_state_dict(state)
    return module.float().eval(), arch, [f"all {len(state)} tensors by their names"]


def _dense(state: dict[str, Tensor], path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Dense layers with ReLU between them; batch norm, where the file has it, after the dense layer before it."""
    widths = parse_arch(arch)
    stems, norms, foreign = _grouped(state, path)
    theta, mapping = _assign(stems, widths, arch, path)
    layers: list[nn.Module] = [nn.Flatten()]
    used = dict(norms)
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), start=1):
        bias = theta.get(f"b{layer}")
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, bias=bias is not None)
        linear.load_state_dict({"weight": theta[f"w{layer}"], **({} if bias is None else {"bias": bias})})
        layers.append(linear)
        if layer < len(widths) - 1:
            if norm := next((s for s in sorted(used, key=_natural) if len(used[s]["running_mean"]) == fan_out), None):
                layers.append(_norm(used.pop(norm)))
                mapping.append(f"batch norm after w{layer} = {norm}")
            layers.append(nn.ReLU())
    left = sorted([name for parts in stems.values() for name, _ in parts.values()] + foreign)
    left += [f"{stem}.running_mean" for stem in used]
    if left:
        raise ReconError(
            f"{path} holds tensors that {arch} has no place for: {', '.join(left[:6])} (widths mean dense layers with "
            "ReLU between them; other networks go by torchvision's name, or into recon.audit as a module)"
        )
    return nn.Sequential(*layers).eval(), arch, mapping


def _norm(parts: dict[str, Tensor]) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(len(parts["running_mean"]), affine="weight" in parts)
    norm.load_state_dict(parts, strict=False)
    return norm


Stems = dict[str, dict[str, tuple[str, Tensor]]]


def _grouped(state: dict[str, Tensor], path: Path) -> tuple[Stems, dict[str, dict[str, Tensor]], list[str]]:
    """Weights and biases of dense layers by stem, tensors of batch norms by stem, and names of everything else."""
    normed = {name.rpartition(".")[0] for name in state if name.endswith(".running_mean")}
    normed = {stem for stem in normed if f"{stem}.running_var" in state}
    norms: dict[str, dict[str, Tensor]] = {stem: {} for stem in normed}
    stems: Stems = {}
    foreign = []
    for name, tensor in state.items():
        own = re.fullmatch(r"([wb])([0-9]+)", name)
        stem, kind = (own[2], {"w": "weight", "b": "bias"}[own[1]]) if own else name.rpartition(".")[::2]
        if stem in norms:
            norms[stem][kind] = tensor.float() if tensor.is_floating_point() else tensor
            continue
        if kind not in ("weight", "bias") or (kind == "weight" and tensor.dim() != 2):
            foreign.append(name)
            continue
        if not tensor.is_floating_point() or not torch.isfinite(tensor.float()).all():
            raise ReconError(f"tensor '{name}' of {path} holds numbers that are not finite floats")
        parts = stems.setdefault(stem, {})
        if kind in parts:
            raise ReconError(f"{path} holds both {parts[kind][0]} and {name}, which mean the same layer: leave one out")
        parts[kind] = (name, tensor.float())
    return stems, norms, foreign


def _kind(name: str) -> str:
    return "weight" if re.fullmatch(r"w[0-9]+|(.*\.)?weight", name) else ""


def _assign(stems: Stems, widths: tuple[int, ...], arch: str, path: Path) -> tuple[Params, list[str]]:
    """Parameters by the package's names and the mapping in words; takes them out of `stems`."""
    held = ", ".join(f"{n} {tuple(t.shape)}" for s in sorted(stems, key=_natural) for n, t in stems[s].values())
    theta: Params = {}
    mapping = []
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), start=1):
        fits = [s for s in stems if "weight" in stems[s] and stems[s]["weight"][1].shape == (fan_out, fan_in)]
        if not fits:
            raise ReconError(
                f"{path} has no weight of shape ({fan_out}, {fan_in}) for layer {layer} of {arch}, "
                f"only {held[:300] or 'no weights at all'}"
            )
        parts = stems.pop(min(fits, key=_natural))
        for kind, name in (("weight", f"w{layer}"), ("bias", f"b{layer}")):
            if kind in parts:
                theta[name] = parts[kind][1]
                mapping.append(f"{name} = {parts[kind][0]}")
        if "bias" in parts and theta[f"b{layer}"].shape != (fan_out,):
            shape = tuple(theta[f"b{layer}"].shape)
            raise ReconError(f"the bias {parts['bias'][0]} of {path} has shape {shape}, and {arch} needs ({fan_out},)")
    return theta, mapping


def _natural(name: str) -> list[Any]:
    """Sorts layer.10 after layer.9; text and numbers alternate, so that like is compared with like."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


# ------------------------------------------------------------------------------------------------------- anatomy


@dataclass(frozen=True)
class Call:
    """One layer at work: its name and module, what it was given and what it answered."""

    name: str
    module: nn.Module
    given: Tensor
    answered: Tensor


@dataclass(frozen=True)
class Anatomy:
    """What attacks may use.

    outputs K · flat: whether the module takes (n, d) and not (n, C, H, W) · scale: "logits" or "probabilities" · first:
    name of the dense layer that is given the whole flattened image · first_why_not: where there is none · mlp, theta:
    the one-logit network of dense layers and ReLU that is the same function, or minus its second output plus its first
    with the sign that makes class 1 positive · mlp_why_not: where there is none.
    """

    outputs: int
    flat: bool
    scale: str
    first: str | None
    first_why_not: str | None
    mlp: MLP | None
    theta: Tensor | None
    mlp_why_not: str | None


def anatomy(module: nn.Module, shape: tuple[int, ...]) -> Anatomy:
    """Of a module in evaluation mode for images of `shape` (C, H, W); seen on random inputs, never on images.

    ReconError where it takes no such images, or where its answers are not (n, K).
    """
    x = torch.rand(8, *shape, generator=torch.Generator().manual_seed(0)) - 0.5
    flat, answers, calls = _watched(module, x)
    outputs = 1 if answers.dim() == 1 else answers.shape[1]
    scale = _scale(module, flat, x, answers.reshape(len(x), outputs), calls)
    working = [call for call in calls if next(call.module.parameters(recurse=False), None) is not None]
    first = next((call for call in working if isinstance(call.module, nn.Linear) and _same(call.given, x)), None)
    mlp, theta, mlp_why_not = None, None, None
    try:
        mlp, theta = _as_mlp(working, answers.reshape(len(x), outputs), x, scale)
    except ReconError as error:
        mlp_why_not = str(error)
    first_why_not = None if first else _no_first(working)
    return Anatomy(outputs, flat, scale, first.name if first else None, first_why_not, mlp, theta, mlp_why_not)


def answers_of(module: nn.Module, x: Tensor) -> Tensor:
    """(n, K) or (n,), also of modules that return a tuple or an object with `logits`."""
    found = module(x)
    if isinstance(found, Mapping):
        found = found.get("logits", found.get("out"))
    found = getattr(found, "logits", found)
    return found[0] if isinstance(found, tuple | list) else found


def _watched(module: nn.Module, x: Tensor) -> tuple[bool, Tensor, list[Call]]:
    """(whether images are taken flat, answers, layers in the order in which they work)."""
    calls: list[Call] = []

    def watch(name: str) -> Any:
        def hook(layer: nn.Module, given: tuple[Any, ...], answered: Any) -> None:
            if given and isinstance(given[0], Tensor) and isinstance(answered, Tensor):
                calls.append(Call(name, layer, given[0].detach().clone(), answered.detach().clone()))

        return hook

    leaves = [(name, part) for name, part in module.named_modules() if not list(part.children())]
    hooks = [part.register_forward_hook(watch(name)) for name, part in leaves]
    tried = []
    try:
        for flat in (False, True):
            calls.clear()
            try:
                with torch.no_grad():
                    answers = answers_of(module, x.flatten(1) if flat else x)
            except Exception as error:  # whatever a stranger's forward says to a wrong shape
                tried.append(" ".join(str(error).split())[:150])
                continue
            if isinstance(answers, Tensor) and answers.dim() in (1, 2) and len(answers) == len(x):
                return flat, answers.float(), calls
            tried.append(f"answers of shape {tuple(answers.shape)}" if isinstance(answers, Tensor) else "no tensor")
    finally:
        for hook in hooks:
            hook.remove()
    size = " × ".join(map(str, x.shape[1:]))
    raise ReconError(f"the network does not classify images of {size} (colours × height × width): {tried[0]}")


def _scale(module: nn.Module, flat: bool, x: Tensor, answers: Tensor, calls: list[Call]) -> str:
    """ "probabilities" where answers stay within [0, 1] however large the inputs are; else "logits".

    ReconError for several probabilities that do not add up to 1: those are classes of which an image may have many.
    """
    found = [answers]
    with torch.no_grad():
        for factor in LARGE:
            more = answers_of(module, (x.flatten(1) if flat else x) * factor).float()
            found.append(more.reshape(len(x), -1))
    every = torch.cat(found)
    if not torch.isfinite(every).all() or (every < 0).any() or (every > 1).any():
        return "logits"
    if answers.shape[1] == 1:
        spread = (every.max() - every.min()).item()
        return "probabilities" if spread > 0 or (calls and isinstance(calls[-1].module, nn.Sigmoid)) else "logits"
    sums = every.sum(1)
    if torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        return "probabilities"
    raise ReconError(
        f"the network answers {answers.shape[1]} probabilities that do not add up to 1, so an image may have many "
        "classes: an audit needs one class for each image"
    )


def logits_of(module: nn.Module, seen: Anatomy, x: Tensor, batch: int = 256) -> Tensor:
    """Logits (n, K) in float64 of inputs x (n, C, H, W), on the CPU; of probabilities their logarithm, or logit."""
    device = next(module.parameters()).device
    with torch.no_grad():
        parts = [
            answers_of(module, (p.flatten(1) if seen.flat else p).to(device)).cpu().double() for p in x.split(batch)
        ]
    found = torch.cat(parts).reshape(len(x), seen.outputs)
    if not torch.isfinite(found).all():
        raise ReconError(
            "answers to the images are not finite numbers: the network, the recipe or the transform is off"
        )
    if seen.scale == "logits":
        return found
    return torch.logit(found, eps=1e-12) if seen.outputs == 1 else found.clamp_min(1e-12).log()


def _same(given: Tensor, x: Tensor) -> bool:
    return given.flatten(1).shape == x.flatten(1).shape and torch.equal(given.flatten(1), x.flatten(1))


def _no_first(working: list[Call]) -> str:
    if not working:
        return "None of its layers is a standard one that could be watched."
    first = working[0]
    if isinstance(first.module, CONVOLUTIONS):
        return "The first layer is a convolution: its weights are no mixtures of whole images."
    if isinstance(first.module, nn.Linear):
        return "The first dense layer is not given the image itself: its weights are mixtures of something else."
    return f"The first layer is a {type(first.module).__name__}: its weights are no mixtures of whole images."


def _as_mlp(working: list[Call], answers: Tensor, x: Tensor, scale: str) -> tuple[MLP, Tensor]:
    """Dense layers with batch norm folded into them, ReLU between them, as one logit; checked on x."""
    if other := next((c for c in working if not isinstance(c.module, (nn.Linear, nn.BatchNorm1d))), None):
        raise ReconError(f"It has a {type(other.module).__name__}, and DecoReco inverts dense layers with ReLU only.")
    if answers.shape[1] > 2:
        raise ReconError(f"It has {answers.shape[1]} outputs, and DecoReco inverts the condition for one or two.")
    layers = _folded(working)
    if len(layers) < 2:
        raise ReconError("It has no hidden layer, and DecoReco inverts what hidden layers remember.")
    target = answers
    if scale == "probabilities":
        target = torch.logit(answers) if answers.shape[1] == 1 else answers.log()
    if answers.shape[1] == 2:  # softmax of two is the logistic function of their difference
        w, b = layers[-1]
        layers[-1] = (w[1:] - w[:1], None if b is None else b[1:] - b[:1])
        target = target[:, 1:] - target[:, :1]
    try:
        network = MLP((layers[0][0].shape[1], *(len(w) for w, _ in layers)), tuple(b is not None for _, b in layers))
        theta = network.flatten({n: t for k, (w, b) in enumerate(layers, 1) for n, t in ((f"w{k}", w), (f"b{k}", b))
                                 if t is not None})  # fmt: skip
        same = network(network.unflatten(theta), x.flatten(1))
    except (RuntimeError, ReconError):
        same = target[:, 0] + torch.inf
    size = target.abs().max().clamp_min(1e-12)
    if not (same - target[:, 0]).abs().max() <= 1e-3 * size:
        raise ReconError(
            "Its answers are not those of its dense layers with ReLU between them, which DecoReco inverts."
        )
    return network, theta


def _folded(working: list[Call]) -> list[tuple[Tensor, Tensor | None]]:
    """(weight, bias) of every dense layer; batch norm goes into the layer before it, if it is given what that answers,
    else into the one after it."""
    layers: list[tuple[Tensor, Tensor | None]] = []
    scale = shift = None
    last: Call | None = None
    for call in working:
        if isinstance(call.module, nn.Linear):
            w: Tensor = call.module.weight.detach()
            b: Tensor | None = None if call.module.bias is None else call.module.bias.detach()
            if scale is not None and shift is not None:
                w, b = w * scale, w @ shift + (0 if b is None else b)
                scale = shift = None
            layers.append((w, b))
        else:
            norm = call.module
            assert isinstance(norm, nn.BatchNorm1d)
            if norm.running_mean is None or norm.running_var is None:
                raise ReconError("It has batch norm without running means, which couples images.")
            s = (norm.running_var + norm.eps).rsqrt() * (1 if norm.weight is None else norm.weight.detach())
            t = (0 if norm.bias is None else norm.bias.detach()) - norm.running_mean * s
            if last is not None and isinstance(last.module, nn.Linear) and torch.equal(last.answered, call.given):
                w, b = layers[-1]
                layers[-1] = (s[:, None] * w, t + (0 if b is None else s * b))
            else:
                scale, shift = s, t
        last = call
    return layers


def first_layer_of(module: nn.Module, name: str) -> Tensor:
    """Weights (h, d) of the dense layer of this name."""
    layer = module.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer.weight.detach().clone()


def start_of(subject: Subject, given: Any, arch: str | None) -> nn.Module:
    """The network before training: a module, a state dict, or a file like that of the trained one."""
    if isinstance(given, Mapping):
        module = copy.deepcopy(subject.module)
        try:
            module.load_state_dict(dict(given))
        except RuntimeError as error:
            raise ReconError(f"theta_init does not fit the network: {' '.join(str(error).split())[:200]}") from error
        return module
    start = subject_of(given, arch).module
    own, other = ({n: tuple(p.shape) for n, p in m.named_parameters()} for m in (subject.module, start))
    if own != other:
        raise ReconError("theta_init does not fit the network: its parameters have other names or shapes")
    return start


def loss_of(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Logistic loss of logits (n, 1), cross-entropy of (n, K), for classes (n,)."""
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits), reduction=reduction)
    return F.cross_entropy(logits, labels, reduction=reduction)
