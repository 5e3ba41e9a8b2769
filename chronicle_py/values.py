"""Values in collections: how they become MessagePack entries, and back.

Here live the codec of entries, the extension types, and entries that carry what is not stored yet. No tree.

Theory of operation. An entry is the MessagePack encoding of a value. A value above a limit becomes an
object of its own and its entry a reference (extension 4; an entry that merely looks like one is stored as
an object too, so a reference is never mistaken). A List or Map inside a value is an extension that holds
its root. What such an entry needs and is not stored yet travels with it, as a `Carrier`, until the
collection is saved.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, get_args, get_origin, runtime_checkable

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from chronicle_py.errors import CorruptStore, InvalidOperation
from chronicle_py.nodes import VALUE, Objects, address_of, body_of
from chronicle_py.shown import shown

LIST = 2
MAP = 3
_REFERENCE = b"\xc7\x20\x04"  # extension 4 of 32 bytes: the address of a value stored as an object
_REFERENCE_SIZE = 35


@runtime_checkable
class Persistent(Protocol):
    """A collection that can stand inside a value."""

    @property
    def extension(self) -> int: ...
    def root(self) -> bytes: ...
    def pending(self) -> bool: ...
    def save(self, objects: Objects) -> Any: ...
    def bind(self, element: Any) -> Any: ...


class Extension(NamedTuple):
    """A type that is encoded as a MessagePack extension."""

    type: type
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, Objects | None], Any]


_EXTENSIONS: dict[int, Extension] = {}


def register_extension(code: int, extension: Extension) -> None:
    """Let values of a type stand in values, as extension `code`. Called once, where the type is defined.

    The type must not be a Struct: msgspec encodes those itself. Unregistered codes come back as `Ext`.
    """
    _EXTENSIONS[code] = extension


class Carrier(bytes):
    """An entry, with what must be stored before anyone else can read it."""

    large: bytes | None  # the value, where the entry is a reference
    nested: dict[tuple[int, bytes], Persistent]  # the collections inside the value


class Unsaved(Exception):
    """A value holds a collection with nodes that are not stored."""


def encode_extension(value: Any) -> Ext:
    """msgspec's hook for values that it does not know; raises `Unsaved` or `InvalidOperation`."""
    for code, extension in _EXTENSIONS.items():
        if isinstance(value, extension.type):
            if isinstance(value, Persistent) and value.pending():
                raise Unsaved
            return Ext(code, extension.encode(value))
    raise InvalidOperation(f"a value of type {type(value).__name__} cannot be kept in a collection: {shown(value)}")


def _encode_part(value: Any) -> Ext:
    if isinstance(value, Persistent):
        raise Unsaved
    return encode_extension(value)


_encode = Encoder(enc_hook=_encode_part).encode


def encode_value(value: Any, limit: int) -> bytes:
    """The entry of a value; above `limit` bytes it is a reference to an object. Raises `InvalidOperation`."""
    try:
        item = _encode(value)
    except Unsaved:
        return _carry(value, limit)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOperation(f"a value cannot be kept in a collection: {error}") from None
    if len(item) > limit or item.startswith(_REFERENCE):
        return _enlarged(item, limit, {})
    return item


def _carry(value: Any, limit: int) -> bytes:
    nested: dict[tuple[int, bytes], Persistent] = {}

    def hook(part: Any) -> Ext:
        if isinstance(part, Persistent):  # a saved one too: the container may not know yet where it was saved
            root = part.root()
            nested[part.extension, root] = part
            return Ext(part.extension, root)
        return encode_extension(part)

    return _enlarged(Encoder(enc_hook=hook).encode(value), limit, nested)


def _enlarged(item: bytes, limit: int, nested: dict[tuple[int, bytes], Persistent]) -> bytes:
    large = len(item) > limit or item.startswith(_REFERENCE)
    carrier = Carrier(_REFERENCE + address_of(VALUE + item) if large else item)
    carrier.large = item if large else None
    carrier.nested = nested
    return carrier


def stored_entry(item: bytes, objects: Objects) -> bytes:
    """The entry once what it carries is stored."""
    if not isinstance(item, Carrier):
        return item
    for collection in item.nested.values():
        collection.save(objects)
    if item.large is not None:
        objects.store(item[3:], VALUE + item.large)
    return bytes(item)


class Codec:
    """Decodes the entries of one collection, to `element` where one is bound."""

    __slots__ = ("_decode", "element", "objects")

    def __init__(self, element: Any, objects: Objects | None) -> None:
        self.element = element
        self.objects = objects
        self._decode: Callable[[Any], Any] | None = None

    def bound(self, element: Any) -> "Codec":
        return Codec(element, self.objects)

    def decode(self, item: bytes) -> Any:
        """The value of an entry; raises `CorruptStore`, or `InvalidOperation` where it does not fit."""
        body: Any = item
        if type(item) is not bytes:
            assert isinstance(item, Carrier)
            body = item if item.large is None else item.large
            if item.nested:
                return _guarded(_decoder(self.element, self.objects, item.nested), body, self.element)
        elif item.startswith(_REFERENCE):
            body = self._large(item[3:])
        decode = self._decode
        if decode is None:
            decode = self._decode = _decoder(self.element, self.objects, {})
        try:
            return decode(body)
        except msgspec.MsgspecError:
            return _guarded(decode, body, self.element)

    def _large(self, address: bytes) -> memoryview:
        if self.objects is None:
            raise CorruptStore("a value is stored as an object, but there is no store to read it from")
        return body_of(self.objects.load(address), VALUE)


def _guarded(decode: Callable[[Any], Any], body: Any, element: Any) -> Any:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise InvalidOperation(f"a value does not fit the element type {shown(element)}: {error}") from None
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"a value cannot be decoded: {error}") from None


def value_decoder(element: Any, objects: Objects | None) -> Callable[[Any], Any]:
    """A function that decodes MessagePack which is not an entry: a state, or items that events hold."""
    decode = _decoder(element, objects, {})
    return lambda data: _guarded(decode, data, element)


def _decoder(
    element: Any, objects: Objects | None, nested: dict[tuple[int, bytes], Persistent]
) -> Callable[[Any], Any]:
    def hook(code: int, data: memoryview) -> Any:
        body = bytes(data)
        if (code, body) in nested:
            return nested[code, body]
        extension = _EXTENSIONS.get(code)
        return Ext(code, body) if extension is None else extension.decode(body, objects)

    return Decoder(element, ext_hook=hook, dec_hook=fit).decode


def fit(wanted: Any, value: Any) -> Any:
    """msgspec's hook for a field of a type it does not know: collections take their element type from it."""
    if not isinstance(value, get_origin(wanted) or wanted):
        raise TypeError(f"expected {wanted}, got {type(value).__name__}")
    arguments = get_args(wanted)
    return value.bind(arguments[0]) if arguments and isinstance(value, Persistent) else value
