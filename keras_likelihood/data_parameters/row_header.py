"""What a table on disk says about itself."""

import dataclasses
import json
import os
import stat
import struct
import uuid
import zlib

HEADER_BYTES = 4096
HOLDER_START = 3072

_MAGIC = b"\x89KLROWS\n"
_VERSION = 2
_START = struct.Struct("<8sIIII")
_BYTE_ORDER_MARK = 0x01020304
_NPY_MAGIC = b"\x93NUMPY"


@dataclasses.dataclass(frozen=True)
class RowHeader:
    """The first 4,096 bytes of a table: whose rows it holds, and how many.

    Args:
        num_rows: number of rows.
        width: float32 numbers in a row.
        owner: what the rows belong to, such as `{"likelihood": "normal",
            "parameter": "scale"}`; anything JSON can hold.
        identity: a random name that only this table has.
    """

    num_rows: int
    width: int
    owner: dict = dataclasses.field(default_factory=dict)
    identity: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def stride(self) -> int:
        """Bytes of a row with its check number."""
        return 4 * (self.width + 1)

    @property
    def journal_start(self) -> int:
        """Where the rows end and the journal begins, on a whole page."""
        end = HEADER_BYTES + self.num_rows * self.stride
        return -(-end // HEADER_BYTES) * HEADER_BYTES

    def pack(self) -> bytes:
        """The bytes of the header."""
        fields = {
            **dataclasses.asdict(self),
            "dtype": "float32",
            "byte_order": "little",
        }
        text = json.dumps(fields, sort_keys=True).encode()
        if _START.size + len(text) > HOLDER_START:
            raise ValueError(
                "The description of a table must fit in "
                f"{HOLDER_START - _START.size} bytes. Received: {len(text)}"
            )
        start = _START.pack(
            _MAGIC, _VERSION, _BYTE_ORDER_MARK, len(text), zlib.crc32(text)
        )
        return (start + text).ljust(HEADER_BYTES, b"\0")

    @classmethod
    def read(cls, path: str) -> "RowHeader":
        """The header of the file at `path`, which must be a whole table.

        Reading changes nothing, whatever the file is.
        """
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _not_a_table(path, "not a regular file")
        with open(path, "rb") as file:
            content = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
        header = cls._unpack(path, content)
        if size < header.journal_start:
            raise ValueError(
                f"{path} is cut: its rows end at byte {header.journal_start}. "
                "Bring back a copy. "
                f"Received: a file of {size} bytes"
            )
        return header

    @classmethod
    def _unpack(cls, path, content):
        if content.startswith(_NPY_MAGIC):
            raise _not_a_table(
                path,
                "a NumPy array. If version 0.1.0 made it as a `store`, give "
                "another path as `store` and call `load` with this one",
            )
        if len(content) < HEADER_BYTES or not content.startswith(_MAGIC):
            raise _not_a_table(path, f"a file that starts {content[:8]!r}")
        _, version, mark, length, checksum = _START.unpack_from(content)
        if version != _VERSION:
            raise _not_a_table(path, f"a table of format {version}")
        text = content[_START.size : _START.size + length]
        if mark != _BYTE_ORDER_MARK or zlib.crc32(text) != checksum:
            raise ValueError(
                f"The header of {path} is damaged. Bring back a copy. "
                "Received: bytes that do not fit their checksum"
            )
        fields = json.loads(text)
        kind = fields.pop("dtype", None), fields.pop("byte_order", None)
        names = {field.name for field in dataclasses.fields(cls)}
        if kind != ("float32", "little") or set(fields) != names:
            raise _not_a_table(path, f"a table of {kind} with {fields}")
        return cls(**fields)

    def check(self, path: str, found: "RowHeader"):
        """Refuses the file at `path` if `found` is not this table's header."""
        expected, received = self._facts(), found._facts()
        if expected == received:
            return
        names = [
            n
            for n in {**expected, **received}
            if expected.get(n) != received.get(n)
        ]
        raise ValueError(
            f"{path} holds rows of another table; give another path. Expected: "
            f"{ {n: expected.get(n) for n in names} }. Received: "
            f"{ {n: received.get(n) for n in names} }"
        )

    def _facts(self):
        facts = {
            "rows": self.num_rows,
            "numbers in a row": self.width,
            **self.owner,
        }
        # As the file holds them: JSON knows no tuples.
        return json.loads(json.dumps(facts))


def _not_a_table(path, received):
    return ValueError(
        f"{path} is not a table of data parameters of this version, so it is "
        f"left as it is; give another path. Received: {received}"
    )
