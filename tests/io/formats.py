"""Strict readers for the files that Clade writes, by the formats' specifications: safetensors, and TFRecord with
TensorBoard's events. Any deviation is an AssertionError."""

import json
import struct

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1, "I32": 4, "I64": 8, "BOOL": 1}


def once(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key is there twice: {keys}"
    return dict(pairs)


def safetensors(data):
    """Returns ({name: (dtype, shape, bytes)}, metadata)."""
    (length,) = struct.unpack_from("<Q", data)
    header = data[8:8 + length]
    assert len(header) == length and header[:1] == b"{" and (8 + length) % 8 == 0
    entries = json.loads(header.decode("utf-8"), object_pairs_hook=once)
    metadata = entries.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values())
    body, at, found = data[8 + length:], 0, {}
    for name, entry in sorted(entries.items(), key=lambda e: (e[1]["data_offsets"], e[0])):
        assert set(entry) == {"dtype", "shape", "data_offsets"}, entry
        begin, end = entry["data_offsets"]
        elements = 1
        for size in entry["shape"]:
            assert isinstance(size, int) and size >= 0
            elements *= size
        assert begin == at and end - begin == elements * SIZES[entry["dtype"]], (name, entry)
        assert begin % SIZES[entry["dtype"]] == 0, f"{name} is not aligned"
        found[name] = entry["dtype"], entry["shape"], body[begin:end]
        at = end
    assert at == len(body)
    return found, metadata


# ---- TFRecord ----
TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283 and crc32c(bytes(32)) == 0x8A9136AA


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8])
        body = data[at + 12:at + 12 + length]
        assert len(body) == length and struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body)
        yield body
        at += 16 + length


# ---- protobuf ----
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            assert value < 1 << 64
            return value, at


def fields(data):
    """Yields (number, wire, value) for each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            if wire == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[wire]
            value = data[at:at + size]
            assert len(value) == size
            at += size
        yield number, wire, value


def message(data, known):
    """{name: value} of a message with the fields {number: (name, wire, decoder)}, none of them repeated."""
    found = {}
    for number, wire, value in fields(data):
        name, wanted, read = known[number]
        assert wire == wanted and name not in found, (number, wire)
        found[name] = read(value)
    return found


def double(value):
    return struct.unpack("<d", value)[0]


def doubles(value):
    return list(struct.unpack(f"<{len(value) // 8}d", value))


def text(value):
    return value.decode("utf-8")


HISTOGRAM = {1: ("min", 1, double), 2: ("max", 1, double), 3: ("num", 1, double), 4: ("sum", 1, double),
             5: ("sum_squares", 1, double), 6: ("bucket_limit", 2, doubles), 7: ("bucket", 2, doubles)}
VALUE = {1: ("tag", 2, text), 2: ("simple_value", 5, lambda v: struct.unpack("<f", v)[0]),
         5: ("histo", 2, lambda v: message(v, HISTOGRAM))}
SUMMARY = {1: ("value", 2, lambda v: message(v, VALUE))}
SESSION = {1: ("status", 0, int)}
EVENT = {1: ("wall_time", 1, double), 2: ("step", 0, int), 3: ("file_version", 2, text),
         5: ("summary", 2, lambda v: message(v, SUMMARY)), 7: ("session_log", 2, lambda v: message(v, SESSION))}


def events(data):
    """All events of a file; the first has the version."""
    found = [message(record, EVENT) for record in records(data)]
    assert found[0]["file_version"] == "brain.Event:2"
    assert all("file_version" not in event for event in found[1:])
    return found
