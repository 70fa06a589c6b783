"""What a model card says of an audit: Markdown for readers, with the same numbers as YAML for programs.  No names."""

from __future__ import annotations

import json
from typing import Any

from recon.auditing.severity import NOT_APPLIED, RAN, power_words

EDPB = (
    "Opinion 28/2024 of the European Data Protection Board calls a model trained on personal data anonymous only where "
    "two likelihoods are insignificant, given all the means reasonably likely to be used by the controller or another "
    "person: that personal data of the training set are extracted from the model, and that they are obtained from its "
    "answers. The question is decided case by case. This audit measures what the attacks named here do with the "
    "weights, on these images. It shows that such means succeed, or that these did not. It does not show how "
    "likely it is that somebody uses them, what other means would do, or whether an image is personal data."
)


def card(report: dict[str, Any]) -> str:
    """A section, "Privacy audit".  report: what report.json holds; only counts of it are told."""
    about, versions = numbers(report), report["versions"]
    ran = [each["attack"] for each in report["tried"] if each["state"] == RAN]
    without = [each["attack"] for each in report["tried"] if each["state"] == NOT_APPLIED]
    said = [
        f"Audited with recon {versions.get('recon', '')}".rstrip()
        + f", weights SHA-256 `{report['weights']['sha256']}`.",
        f"Images: {report['verdict']}. Membership: {report['membership_verdict'] or 'not asked'}.",
        f"Attacks that ran: {', '.join(ran) or 'none'}."
        + (f" Not applicable: {', '.join(without)}." if without else ""),
        *power_words(report),
        EDPB,
    ]
    yaml = "\n".join(f"  {key}: {json.dumps(value)}" for key, value in about.items())
    return "\n\n".join(["## Privacy audit", *said, f"```yaml\nprivacy_audit:\n{yaml}\n```"]) + "\n"


def numbers(report: dict[str, Any]) -> dict[str, Any]:
    """What a program reads: verdicts, counts, and the interval of each."""
    result, members, power = report["result"], report["membership"], report["power"]
    recovered = {
        each["index"] if each["index"] is not None else each["image"]
        for each in report["leaked"]
        if each["how"] != "membership"
    }
    found: dict[str, Any] = {
        "schema": report["schema"],
        "weights_sha256": report["weights"]["sha256"],
        "verdict": report["verdict"],
        "membership_verdict": report["membership_verdict"],
        "training_images": report["images"]["train"],
        "held_out_images": report["images"]["held_out"],
        "images_came_back": len(recovered) if result is not None else None,
        "canaries_found_to_leak": None if power is None else f"{power['leaking']} of {power['canaries']}",
    }
    if members is not None:
        for rate, row in members["scores"][members["best"]]["named"].items():
            found[f"named_at_false_alarms_of_{rate}"] = (
                {name: row[name] for name in ("count", "low", "high", "guess", "guess_most")}
                if row["resolved"]
                else None
            )
    return found
