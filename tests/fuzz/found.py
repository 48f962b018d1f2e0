# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs that once went wrong: what was found by drawing at random, cut down to what shows it."""

from __future__ import annotations

HEAD = "op: npu_found\nsummary: Rows.\n"
TAIL = "reference: m:f\nbackward: none\n"
TWO_FORMATS = """format: layout
dims: {B: batch, D: channels}
args: {x: {dtype: float32, dims: {BD: B D, D: D}}, layout: {type: str}, n: {type: int}}
"""
ONE_FORMAT = "format: F\ndims: {D: channels}\n"
KERNEL = '{aclnn: "aclnnX(x, layout, n, y)"}\n'
AN_X = "{x: {dtype: float32, dims: D}, n: {type: int, default: 1}, f: {type: float, default: 1e+16}}"


def two_formats(**parts: str) -> str:
    more = "".join(f"{key}: {value}\n" for key, value in ({"outputs": "{y: {like: x}}"} | parts).items())
    return HEAD + TWO_FORMATS + TAIL + f"kernel: {KERNEL}" + more


def one_format(**parts: str) -> str:
    usual = {"args": AN_X, "outputs": "{y: {like: x}}", "kernel": '{aclnn: "aclnnX(x, n, f, y)"}'}
    return HEAD + ONE_FORMAT + TAIL + "".join(f"{key}: {value}\n" for key, value in (usual | parts).items())


ACCEPTED = {
    "a double negative is printed as none": two_formats(require='["--D > 1", "-(-n) > 0", "---D < n"]'),
    "one text of dims for all formats": """op: npu_found
summary: Rows.
format: layout
dims: {D: channels}
args: {x: {dtype: float32, dims: {BD: D, D: D}}, layout: {type: str}}
outputs: {y: {like: x}}
backward: none
kernel: {aclnn: "aclnnX(x, layout, y)"}
reference: m:f
""",
    "a number that only a message holds": two_formats(
        require="""['n < INT64_MAX or layout == "BD" or layout == "D"']"""
    ),
    "a text that names an import": one_format(
        args="{x: {dtype: float32, dims: D}, n: {type: str, default: INT64_MAX}, f: {type: str, default: math.inf}}"
    ),
    "large numbers with an exponent": one_format(require="[f < 1e300, f != 1.5e+16, 'f not in (1e17, 2e-7)']"),
    "quotes as a summary": one_format().replace("Rows.", '\'"""\''),
    "sums of numbers beside dims": two_formats(outputs='{y: {dtype: x, dims: "max(1 - 7, D, 2 + n) min(3 * 4, D)"}}'),
    "large sums of small numbers": two_formats(outputs='{y: {dtype: x, dims: "65536*65536 D"}}'),
    "an axis that one format does not have": """op: npu_found
summary: Rows.
format: layout
dims: {D: channels, split: an axis}
args:
  x: {dtype: float32, dims: {R: ... D, S: ... D}}
  z: {dtype: float32, dims: {R: ... D, S: D}}
  axis: {type: int, axis: split}
  layout: {type: str}
outputs: {y: {like: z, resize: {split: split//2}}, d: {like: x}}
backward: none
kernel: {aclnn: "aclnnX(x, z, axis, layout, y, d)"}
reference: m:f
""",
    "a temporary that has the dtype of a tensor whose gradient is like another's": """op: npu_found
summary: Rows.
format: F
dims: {D: channels}
args: {x: {dtype: [float16, float32], dims: D}}
outputs: {y: {like: x}}
backward: {call: "aclnnXGrad(grad(y), t, grad(x))", temporaries: {t: {dtype: x, dims: "64"}}}
kernel: {aclnn: "aclnnX(x, y)"}
reference: {forward: "m:f", backward: "m:g"}
""",
    "two tensors of any rank, each in its own format": """op: npu_found
summary: Rows.
format: layout
dims: {D: channels, split: an axis}
args:
  x: {dtype: float32, dims: {R: ..., S: D}}
  z: {dtype: float32, dims: {R: D, S: ... D}}
  axis: {type: int, axis: split}
  layout: {type: str}
  o: {dtype: float32, dims: {R: ..., S: ...}, optional: true}
outputs: {y: {dtype: x, dims: {R: ... 2, S: D ...}}, d: {like: z, resize: {split: split//2}}}
backward: {call: "aclnnXGrad(grad(y), grad(d), t, layout, grad(x), grad(z), grad(o))", temporaries: {t: {dtype: int32, dims: {R: ... D, S: ...}}}}
kernel: {aclnn: "aclnnX(x, o, z, axis, layout, y, d)"}
reference: {forward: "m:f", backward: "m:g"}
""",
    "a requirement that the format settles": """op: npu_found
summary: Rows.
format: layout
dims: {D: channels, split: an axis}
args: {x: {dtype: float32, dims: {BD: ... D}}, axis: {type: int, axis: split}, layout: {type: str}}
outputs: {y: {like: x}}
require: ['layout == "BD" or split > 1', {if: layout != "BD", then: split > D}]
backward: none
kernel: {aclnn: "aclnnX(x, axis, layout, y)"}
reference: m:f
""",
    "invisible letters in a name that is meant": one_format(dims="{D: \u200b}").replace("dims: {D: channels}\n", ""),
    "a carriage return in a doc": one_format(doc='"a\\rb"'),
}

REFUSED = {
    "dims without a doc": ("HP020", one_format().replace("channels", '" "')),
    "a blank summary": ("HP020", one_format().replace("Rows.", '" \\t "')),
    "no key dim": ("HP020", two_formats(sharding="{shard: [D]}", context_parallel="{query: [D], key: [], mask: full}")),
    "a macro as a name": ("HP101", one_format().replace(" n:", " errno:")),
    "a limit as a name": ("HP101", one_format().replace(" n:", " UINT8_MAX:")),
    "a word of Python as a module": ("HP101", one_format(platforms="{torch: {delegate: class}}")),
    "deep inversions": ("HP202", one_format(require=f"['{'~' * 900}D > 1']")),
    "a long number in a list": ("HP202", one_format(require=f"['[0x{'f' * 3900}] > D']")),
    "half a character": ("HP202", one_format(require="""['"\\ud800" != "x"']""")),
    "nested choices": ("HP202", one_format(require=f"['{'(' * 35}D{' in (1, 2, 3))' * 35}']")),
    "lines that end in a return": ("HP203", one_format().replace("\n", "\r").replace("float32", "float33")),
    "next lines": ("HP203", one_format().replace("\n", "\x85").replace("float32", "float33")),
    "an unknown dim of a temporary": (
        "HP102",
        one_format(kernel='{aclnn: "aclnnX(x, n, f, t, y)", temporaries: {t: {dtype: int8, dims: Q}}}'),
    ),
    "any number of dims that no input has": ("HP106", one_format(outputs='{y: {dtype: x, dims: "... D"}}')),
    "any number of dims that no input has in one format": (
        "HP106",
        two_formats().replace("{BD: B D, D: D}", "{BD: ... B D, D: D}").replace("{like: x}", "{dtype: x, dims: ...}"),
    ),
    "any number of dims of a temporary": (
        "HP106",
        one_format(kernel='{aclnn: "aclnnX(x, n, f, t, y)", temporaries: {t: {dtype: int8, dims: ...}}}'),
    ),
    "a negative extent": ("HP202", one_format(outputs='{y: {dtype: x, dims: "2-3"}}')),
}
