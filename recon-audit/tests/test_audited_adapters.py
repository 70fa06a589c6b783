"""Adapters of PEFT's: the function that they are, what they tell of members, what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from recon.errors import ReconError
from recon_audit.adapters import CONFIG, FILE, LowRank, adapter_scores, on_base, scores_of
from recon_audit.anatomy import examine
from recon_audit.networks import subject_of
from recon_audit.shadows import Recipe, fresh

N, RANK = 6, 8
CONFIGURATION = {"peft_type": "LORA", "r": RANK, "lora_alpha": 16, "target_modules": ["1"]}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, 5))


def tuned():
    """(images, classes, factors of the first layer trained by descent on the first N)."""
    torch.manual_seed(1)
    x, y, base = torch.rand(40, 1, 8, 8) - 0.5, torch.arange(40) % 5, network()
    a, b = torch.randn(RANK, 64) / 8, torch.zeros(30, RANK)
    layer = LowRank(a, b, 2.0)
    nn.utils.parametrize.register_parametrization(base[1].requires_grad_(False), "weight", layer)
    optimiser = torch.optim.SGD([layer.lora_a, layer.lora_b], lr=0.5)
    for _ in range(300):
        optimiser.zero_grad()
        nn.functional.cross_entropy(base(x[:N]), y[:N]).backward()
        optimiser.step()
    return x, y, base.eval()


def state(a=(RANK, 64), b=(30, RANK), name="1", **more):
    torch.manual_seed(2)
    stem = f"base_model.model.{name}"
    pair = {f"{stem}.lora_A.weight": torch.randn(a), f"{stem}.lora_B.weight": torch.randn(b)}
    return {key: value for key, value in (pair | more).items() if value is not None}


def written(folder, tensors, **config):
    save_file(tensors, folder / FILE)
    (folder / CONFIG).write_text(json.dumps(CONFIGURATION | config))
    torch.save(network().state_dict(), folder / "base.pt")
    return folder


@pytest.mark.parametrize(("config", "scale"), [({}, 2.0), ({"use_rslora": True}, 16 / 8**0.5)])
@pytest.mark.parametrize("given", [lambda folder: folder / "base.pt", lambda _: network()])
def test_a_file_on_its_base_is_their_function(tmp_path, config, scale, given):
    whole = "base_model.model.3.bias"
    tensors = state(**{whole: torch.arange(5.0)})
    subject = on_base(written(tmp_path, tensors, **config), given(tmp_path), None)
    x, expected = torch.randn(4, 1, 8, 8), network()
    a, b = (tensors[f"base_model.model.1.lora_{k}.weight"] for k in "AB")
    expected[1].weight.data += scale * b @ a
    expected[3].bias.data.copy_(tensors[whole])
    torch.testing.assert_close(subject.module(x), expected(x), rtol=1e-4, atol=1e-4)
    trained = [name for name, p in subject.module.named_parameters() if p.requires_grad]
    assert len(trained) == 3 and trained[-1] == "3.bias"
    shadow = fresh(subject.module, Recipe(), torch.Generator().manual_seed(0))
    base = network()[1]
    torch.testing.assert_close(shadow[1].weight, base.weight)  # a shadow begins without it
    assert examine(subject.module, (1, 8, 8)).first == "1"


WITHOUT_B = {"base_model.model.1.lora_B.weight": None}


@pytest.mark.parametrize(
    ("tensors", "config", "reason"),
    [
        (state(a=(4, 64), b=(30, 4)), {}, "of rank 8, as"),
        (state(b=(30, 4)), {}, "do not fit its weight"),
        (state(a=(RANK, 60)), {}, "do not fit its weight"),
        (state(name="7"), {}, "does not have: only linear"),
        (state(name="2"), {}, "is on a ReLU: only linear"),
        (state(**WITHOUT_B), {}, "no lora_A and lora_B"),
        ({"a": torch.ones(3)}, {}, "does not fit the base"),
        (state(), {"use_dora": True}, "asks for use_dora"),
        (state(), {"rank_pattern": {"1": 4}}, "asks for rank_pattern"),
        (state(), {"peft_type": "IA3"}, "asks for IA3"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path, tensors, config, reason):
    with pytest.raises(ReconError, match=reason):
        on_base(written(tmp_path, tensors, **config), network(), None)


def test_an_adapter_alone_or_without_its_configuration_is_one_sentence(tmp_path):
    folder = written(tmp_path, state())
    with pytest.raises(ReconError, match="say of which network with --base"):
        subject_of(folder / FILE)
    (folder / CONFIG).unlink()
    with pytest.raises(ReconError, match="cannot be read"):
        on_base(folder, network(), None)
    with pytest.raises(ReconError, match="belongs to an adapter's file"):
        on_base(network(), network(), None)


class OfPEFT(nn.Module):
    """A layer with the attributes of PEFT's."""

    merged, active_adapters = False, ("default",)

    def __init__(self, base, part, dora=False):
        super().__init__()
        self.base_layer, self.scaling = base, {"default": part.scale}
        self.use_dora = {"default": dora}
        linear = [
            nn.utils.skip_init(nn.Linear, *p.shape[::-1], bias=False)
            for p in (part.lora_a, part.lora_b)
        ]
        linear[0].weight, linear[1].weight = part.lora_a, part.lora_b
        self.lora_A, self.lora_B = (nn.ModuleDict({"default": layer}) for layer in linear)

    def forward(self, x):
        low = self.lora_B["default"](self.lora_A["default"](x))
        return self.base_layer(x) + self.scaling["default"] * low


def test_layers_of_peft_become_linear_ones():
    x, _, module = tuned()
    part, base = module[1].parametrizations.weight[0], network()
    wrapped = nn.Sequential(base[0], OfPEFT(base[1], part), *base[2:])
    subject = subject_of(wrapped)
    torch.testing.assert_close(subject.module(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(adapter_scores(subject.module)) == 2 and type(wrapped[1]) is OfPEFT
    with pytest.raises(ReconError, match="DoRA"):
        subject_of(nn.Sequential(OfPEFT(base[1], part, dora=True)))
    with pytest.raises(ReconError, match="is on a Conv2d"):
        subject_of(nn.Sequential(OfPEFT(nn.Conv2d(1, 1, 1), part)))


def test_members_are_certified_and_the_adapter_is_left_as_it_was():
    x, _, module = tuned()
    before = module(x)
    scores = scores_of(module, x)
    assert set(scores) == {"adapter", "certificate"} and torch.equal(module(x), before)
    assert scores["certificate"][:N].min() > scores["certificate"][N:].max() + 3
    assert (scores["adapter"][:N, None] > scores["adapter"][N:]).double().mean() > 0.8
    assert scores_of(network(), x) == {}


def test_a_later_layer_whose_inputs_move_is_left_out():
    x, _, module = tuned()
    alone = scores_of(module, x)
    later = LowRank(torch.randn(RANK, 30), torch.randn(5, RANK), 1.0)
    nn.utils.parametrize.register_parametrization(module[3], "weight", later)
    torch.testing.assert_close(scores_of(module, x)["adapter"], alone["adapter"])


def test_peft_itself(tmp_path):
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(
        network(), peft.LoraConfig(r=4, lora_alpha=8, target_modules=["1", "3"])
    )
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    x, expected = torch.randn(4, 1, 8, 8), model.eval()(torch.zeros(4, 1, 8, 8))
    for subject in (on_base(tmp_path, network(), None), subject_of(model)):
        torch.testing.assert_close(subject.module(x * 0), expected, rtol=1e-4, atol=1e-4)
