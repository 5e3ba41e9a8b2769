"""What an index sorts by: paths into values, and the text that stands for a value in the order of values. Pure.

Values are ordered by kind, then within it:

    None < False < True < NaN < numbers < times < text < bytes

Integers and floats are one kind and compare as numbers, exactly: 2 and 2.0 are the same, 2**53 and 2**53 + 1 are not.
Times are instants, text goes by code points, bytes by bytes. Lists, objects and other extensions have no place in it.

Theory of operation. A key is text whose UTF-8 bytes sort as its values do: a letter for the kind, then the value. It
holds no NUL, so that `key ‖ NUL ‖ what follows` sorts by the key first. A number is its exponent and 63 bits of
fraction in hex, complemented below zero, without the zeros at the end. Text of more than 64 characters is cut: the
first 64, a mark, and 128 bits of its hash. So equal keys are equal values, always, and only the order *among* texts
with the same 64 characters at the beginning has to be looked up in the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from blake3 import blake3

from chronicle_py.errors import InvalidName, InvalidOperation
from chronicle_py.event import decode_payload, encode_payload
from chronicle_py.shown import shown

Parts = tuple[str, ...]

NONE, FALSE, TRUE, NAN, NUMBER, TIME, TEXT, BYTES = "ABCDEFGH"
CUT: Final = 64  # characters (or bytes) of a text that stand in its key
_ESCAPE, LONG, _AS_NUL, _AS_ESCAPE = "\x01", "\x01\x01", "\x01\x02", "\x01\x03"
_DIGITS: Final = 19  # hex digits of a number: 12 bits of exponent, 63 of fraction, and the sign's
_LEAST: Final = 1075  # added to an exponent: that of the least float becomes 1
_SIGN: Final = 1 << 75
_FRACTION: Final = (1 << 63) - 1
_INFINITE: Final = 2200 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


# --- paths ----------------------------------------------------------------------------------------------------------


def parse_path(path: str | Sequence[str | int]) -> Parts:
    """The parts of a path: dotted text, or a sequence of parts where names hold dots. Empty: the value itself."""
    if isinstance(path, str):
        parts: Sequence[str | int] = path.split(".") if path else ()
    elif isinstance(path, Sequence) and not isinstance(path, bytes):
        parts = path
    else:
        raise InvalidName(f"the path of an index is dotted text or a sequence of parts, not {shown(path)}")
    found = tuple(str(part) if type(part) is int and part >= 0 else part for part in parts)
    for part in found:
        if not isinstance(part, str) or not part:
            raise InvalidName(
                f"a path is made of names and of indexes from 0, not {shown(part)}; write it 'meta.user' or "
                "('meta', 'user')"
            )
    return found  # type: ignore[return-value]


def path_text(parts: Parts) -> str:
    """The path in one text: parts between dots, `~` `.` `/` in them as `~0` `~1` `~2`."""
    return ".".join(part.replace("~", "~0").replace(".", "~1").replace("/", "~2") for part in parts)


def picker(parts: Parts) -> Callable[[Any], Any]:
    """A function that reads the value at a path out of MessagePack bytes; raises LookupError where there is none, or a
    MsgspecError where the bytes do not decode. Of objects on the way only the field in question is decoded."""
    if not parts:
        return decode_payload
    fast = _field_decoder(parts)

    def pick(raw: Any) -> Any:
        try:
            found = fast(raw)
        except msgspec.MsgspecError:  # a list or another thing on the way, or damage: see what it is
            return value_at(decode_payload(raw), parts)
        for _ in parts:
            if found is msgspec.UNSET:
                break
            found = found.at
        if found is msgspec.UNSET:
            raise LookupError
        return found

    return pick


def _field_decoder(parts: Parts) -> Callable[[Any], Any]:
    shape: Any = Any
    for part in reversed(parts):
        kind: Any = Any if shape is Any else shape | msgspec.UnsetType
        shape = msgspec.defstruct("Found", [("at", kind, msgspec.UNSET)], rename={"at": part}, gc=False)
    return msgspec.msgpack.Decoder(shape, ext_hook=msgspec.msgpack.Ext).decode


def value_at(value: Any, parts: Parts) -> Any:
    """The value at a path: names lead into objects, whole numbers into lists. LookupError where there is none."""
    for part in parts:
        if isinstance(value, dict):
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            value = value[int(part)]
        else:
            raise LookupError
    return value


# --- keys -----------------------------------------------------------------------------------------------------------


def key_of(value: Any) -> str | None:
    """The key of a value as it was decoded; None for one that has no place in the order."""
    kind = type(value)
    if kind is str:
        return _text_key(TEXT, value)
    if kind is int or kind is float:
        return NUMBER + _number(value) if value == value else NAN
    if value is None:
        return NONE
    if kind is bool:
        return TRUE if value else FALSE
    if kind is bytes:
        return _text_key(BYTES, value.decode("latin-1"))
    if kind is datetime and value.tzinfo is not None:
        return f"{TIME}{(value - _EPOCH) // _MICROSECOND + (1 << 62):016x}"
    return None


def asked_for(value: Any) -> tuple[str, Any]:
    """The key of a value that somebody looks for, and that value as it would be stored."""
    stored = decode_payload(encode_payload(value))
    key = key_of(stored)
    if key is None:
        raise InvalidOperation(
            f"an index holds None, bool, numbers, text, bytes and times with a zone; {shown(value)} is none of them"
        )
    return key, stored


def _text_key(kind: str, text: str) -> str:
    if len(text) > CUT:
        head = text[:CUT]
        mark = LONG + blake3(text.encode()).hexdigest(16)
    else:
        head, mark = text, ""
    if "\0" in head or _ESCAPE in head:
        head = _escaped(head)
    return kind + head + mark


def _escaped(text: str) -> str:
    return text.replace(_ESCAPE, _AS_ESCAPE).replace("\0", _AS_NUL)


def _number(value: int | float) -> str:
    if value == 0:
        size = 0
    elif type(value) is int:
        size = abs(value)
        exponent = size.bit_length() - 1
        size = ((exponent + _LEAST) << 63) | ((size << 63 >> exponent) & _FRACTION)
    elif math.isinf(value):
        size = _INFINITE
    else:
        fraction, exponent = math.frexp(abs(value))
        size = ((exponent - 1 + _LEAST) << 63) | (int(fraction * 18446744073709551616.0) & _FRACTION)
    return f"{_SIGN - size if value < 0 else _SIGN + size:019x}".rstrip("0")


def kind_span(key: str) -> tuple[str, str]:
    """Where the keys of this key's kind begin, and where they have ended."""
    kind = key[0]
    if kind in (FALSE, TRUE):
        return FALSE, NAN
    return kind, chr(ord(kind) + 1)


def is_long(key: str) -> bool:
    """Whether the key is that of a text that was cut."""
    return len(key) > CUT and LONG in key


def head_of(key: str) -> str:
    """What the keys of all texts begin with that share the 64 characters of a long one."""
    return key[: key.rindex(LONG) + len(LONG)]


def prefix_key(prefix: str | bytes) -> str:
    """What the keys of all texts begin with that begin with this one, of at most 64 characters."""
    text = prefix if isinstance(prefix, str) else prefix.decode("latin-1")
    return (TEXT if isinstance(prefix, str) else BYTES) + _escaped(text[:CUT])


def value_of(key: str) -> Any:
    """The value of a key that is not long. Whole numbers of at most 64 bits come back as int."""
    kind, text = key[0], key[1:]
    if kind in (NONE, FALSE, TRUE):
        return {NONE: None, FALSE: False, TRUE: True}[kind]
    if kind == NAN:
        return math.nan
    if kind == NUMBER:
        return _number_of(text)
    if kind == TIME:
        return _EPOCH + (int(text, 16) - (1 << 62)) * _MICROSECOND
    text = text.replace(_AS_NUL, "\0").replace(_AS_ESCAPE, _ESCAPE)
    return text if kind == TEXT else text.encode("latin-1")


def _number_of(text: str) -> int | float:
    held = int(text.ljust(_DIGITS, "0"), 16) - _SIGN
    size = abs(held)
    if size == 0:
        return 0
    if size == _INFINITE:
        return math.copysign(math.inf, held)
    exponent, fraction = (size >> 63) - _LEAST, (size & _FRACTION) | 1 << 63
    found: int | float
    if 0 <= exponent < 64 and not fraction & ((1 << (63 - exponent)) - 1):
        found = fraction >> (63 - exponent)
    else:
        found = math.ldexp(fraction, exponent - 63)
    return -found if held < 0 else found
