"""A transcript, line by line; the language is that of tests/support/script.rs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_WORDS = {"#!", "==", "<=", ">>", ">b", "<<", "<<=", "<!", "<.", ">!", "js>", "js<", "js!"}


@dataclass
class Step:
    line: int
    word: str
    rest: str


@dataclass
class Settings:
    live: bool = False
    limits: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """A file for the server; empty when the transcript wants no settings."""
        tables = (("limits", self.limits), ("sessions", self.sessions))
        return "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
            for name, table in tables
            if table
        )


def parse(text: str) -> list[Step]:
    steps: list[Step] = []
    for number, content in enumerate(text.split("\n"), 1):
        if content.startswith("|") and steps and steps[-1].word == "js>":
            steps[-1].rest += f"\n{content[1:]}"
        elif content.strip() and (not content.startswith("#") or content.startswith("#!")):
            word, _, rest = content.partition(" ")
            if word not in _WORDS and not re.fullmatch(r"==\[.*\]", word):
                raise ValueError(f"{number}: unknown word `{word}`")
            steps.append(Step(number, word, rest))
    return steps


def settings_of(steps: list[Step]) -> Settings:
    settings = Settings()
    for step in steps:
        if step.word != "#!":
            continue
        name, _, content = step.rest.partition(" ")
        if name == "live":
            settings.live = True
        elif name in ("limits", "sessions", "params"):
            getattr(settings, name).update(json.loads(content))
        else:
            raise ValueError(f"{step.line}: unknown setting `{name}`")
    return settings
