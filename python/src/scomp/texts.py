"""Texts of tagged values: dates and integers of any length."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

from .errors import BadAnswer
from .limits import BIGINT_DIGITS_MAX

_DIGITS_PER_STEP: Final = 4_000
"""Python converts at most 4300 digits in one step, by default."""

_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)


def text_to_datetime(text: str) -> datetime:
    found = _DATE.fullmatch(text)
    if found is None:
        raise malformed("$date")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "0")[:6].ljust(6, "0")),
            tzinfo=timezone.utc,
        )
        return moment - _offset(zone)
    except (ValueError, OverflowError) as error:
        raise malformed("$date") from error


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta(0)
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))


def text_to_int(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= BIGINT_DIGITS_MAX):
        raise malformed("$bigint")
    number = 0
    for start in range(0, len(digits), _DIGITS_PER_STEP):
        piece = digits[start : start + _DIGITS_PER_STEP]
        number = number * 10 ** len(piece) + int(piece)
    return -number if text.startswith("-") else number


def int_to_text(value: int) -> str:
    rest, pieces = abs(value), list[str]()
    step = 10**_DIGITS_PER_STEP
    while rest >= step:
        rest, piece = divmod(rest, step)
        pieces.append(str(piece).zfill(_DIGITS_PER_STEP))
    pieces.append(str(rest))
    return ("-" if value < 0 else "") + "".join(reversed(pieces))


def malformed(tag: str) -> BadAnswer:
    return BadAnswer(f"a malformed `{tag}`", code=-32602, data={"kind": "InvalidParams"})
