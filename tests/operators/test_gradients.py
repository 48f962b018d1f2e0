# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients on one device: the `autograd` package over the public functions, against the reference's backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from autograd.tracer import isbox

from hyper_parallel import custom_ops, library
from hyper_parallel.platform.numpy.function import FunctionContext
from tests.reference.finite_differences import gradient as finite_differences
from tests.reference.kl_cases import PACKED, SCALE, TYPES

from . import kl_loss_calls, mhc_calls
from .kl_loss_calls import DENSE, SPARSE
from .mhc_calls import ATTRIBUTES, CLAMP, INPUTS, MHC, OUTPUT_NAMES, POST, PRE
from .sharded_calls import as_tuple

LOSSES = (DENSE, SPARSE)
TOKENS = pytest.mark.parametrize("tokens", [(2, 3), (5,)], ids=["BSN", "TN"])


def mhc_gradients(
    op: str, tensors: Mapping[str, Any], cotangents: Mapping[str, Any], factor: float = 1.0
) -> dict[str, Any]:
    """Of `factor * sum(output * cotangent)`, summed in float64, over the outputs that have one."""

    def loss(*values: Any) -> Any:
        outputs = dict(zip(OUTPUT_NAMES[op], as_tuple(getattr(custom_ops, op)(*values, **ATTRIBUTES[op])), strict=True))
        terms = [
            anp.sum(outputs[name].astype(np.float64) * value.astype(np.float64)) for name, value in cotangents.items()
        ]
        return factor * sum(terms)

    found = autograd.grad(loss, argnum=tuple(range(len(tensors))))(*tensors.values())
    return dict(zip(INPUTS[op], found, strict=True))


def assert_same(given: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert given.keys() == expected.keys()
    for name, value in expected.items():
        assert given[name].dtype == value.dtype, name
        np.testing.assert_array_equal(given[name], value, err_msg=name)


@TOKENS
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", MHC)
def test_mhc(op, dtype, tokens):
    tensors = mhc_calls.draw(op, tokens, dtype)
    cotangents = mhc_calls.draw_cotangents(op, mhc_calls.forward(op, tensors))
    assert_same(mhc_gradients(op, tensors, cotangents), mhc_calls.gradients(op, tensors, cotangents))


@TOKENS
@pytest.mark.parametrize(("op", "name"), [(op, name) for op in MHC for name in INPUTS[op]], ids=str)
def test_mhc_by_finite_differences(op, name, tokens):
    tensors = mhc_calls.draw(op, tokens)
    cotangents = mhc_calls.draw_cotangents(op, mhc_calls.forward(op, tensors))
    if op == CLAMP:
        logits = mhc_calls.forward(op, tensors)["h_res_logits"][0]
        bounds = [ATTRIBUTES[op]["clamp_min"], ATTRIBUTES[op]["clamp_max"]]
        assert all(np.abs(logits - bound).min() > 1e-3 for bound in bounds), "a step may cross a bound"

    def loss(tensor: Any) -> float:
        outputs = as_tuple(getattr(custom_ops, op)(**{**tensors, name: tensor}, **ATTRIBUTES[op]))
        by_name = dict(zip(OUTPUT_NAMES[op], outputs, strict=True))
        return float(sum(np.sum(by_name[output] * value) for output, value in cotangents.items()))

    given = mhc_gradients(op, tensors, cotangents)[name]
    np.testing.assert_allclose(given, finite_differences(loss, tensors[name]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", MHC)
def test_a_mhc_loss_scaled_by_3_scales_every_gradient_by_3(op):
    tensors = mhc_calls.draw(op, (2, 3))
    cotangents = mhc_calls.draw_cotangents(op, mhc_calls.forward(op, tensors))
    once, scaled = (mhc_gradients(op, tensors, cotangents, factor) for factor in (1.0, 3.0))
    for name, value in once.items():
        assert np.any(value)
        np.testing.assert_allclose(scaled[name], 3.0 * value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("op", "output"), [(op, output) for op in (PRE, CLAMP) for output in ("h_in", "h_post", "h_res")]
)
def test_one_output_alone(op, output):
    """An output that takes no part in the loss counts with zeros."""
    tensors = mhc_calls.draw(op, (2, 3))
    outputs = mhc_calls.forward(op, tensors)
    cotangents = mhc_calls.draw_cotangents(op, outputs)
    with_zeros = {name: value if name == output else np.zeros_like(value) for name, value in cotangents.items()}
    given = mhc_gradients(op, tensors, {output: cotangents[output]})
    assert_same(given, mhc_calls.gradients(op, tensors, with_zeros))


def test_every_alpha_has_an_output_of_its_own():
    """The parts of alpha are those of pre, post and res, which lead to h_in, h_post and h_res."""
    tensors = mhc_calls.draw(PRE, (2, 3))
    cotangents = mhc_calls.draw_cotangents(PRE, mhc_calls.forward(PRE, tensors))
    for part, output in enumerate(("h_in", "h_post", "h_res")):
        alpha = mhc_gradients(PRE, tensors, {output: cotangents[output]})["alpha"]
        assert list(np.flatnonzero(alpha)) == [part]


@pytest.mark.parametrize(
    ("op", "output"), [(op, output) for op in (PRE, CLAMP) for output in OUTPUT_NAMES[op][3:]], ids=str
)
def test_outputs_for_the_backward_lead_no_gradient_back(op, output):
    tensors = mhc_calls.draw(op, (2, 3))
    outputs = mhc_calls.forward(op, tensors)
    cotangents = mhc_calls.draw_cotangents(op, outputs)
    given = mhc_gradients(op, tensors, {**cotangents, output: np.ones_like(outputs[output])})
    assert_same(given, mhc_gradients(op, tensors, cotangents))


@pytest.mark.parametrize(
    ("op", "traced"),
    [
        (POST, {"out"}),
        (PRE, {"h_in", "h_post", "h_res"}),
        (CLAMP, {"h_in", "h_post", "h_res"}),
        (DENSE, {"loss"}),
        (SPARSE, {"loss"}),
    ],
)
def test_only_outputs_with_a_gradient_are_traced(op, traced):
    if op in MHC:
        tensors, keywords, names = mhc_calls.draw(op, (5,)), ATTRIBUTES[op], OUTPUT_NAMES[op]
    else:
        tensors, _ = loss_tensors(op, None)
        keywords, names = {"scale_value": SCALE}, kl_loss_calls.OUTPUTS
    found = set()

    def loss(tensor: Any) -> Any:
        given = {name: tensor if name == differentiated else value for name, value in tensors.items()}
        for name, output in zip(names, as_tuple(getattr(custom_ops, op)(**given, **keywords)), strict=True):
            found.update({name} if isbox(output) else ())
        return anp.sum(tensor)

    differentiated = "x" if op in MHC else "query_index"
    autograd.grad(loss)(tensors[differentiated])
    assert found == traced


def backward(op: str, arguments: tuple[Any, ...], cotangents: list[Any]) -> tuple[Any, ...]:
    """The generated class's own backward, as a framework calls it that hands every cotangent on."""
    function = library.dfunction("".join(word.capitalize() for word in op.split("_")) + "DFunction")
    ctx = FunctionContext((True,) * len(arguments))
    function.forward(ctx, *function.bind_arguments(*arguments))
    return function.backward(ctx, *cotangents)


@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_cotangents_of_outputs_for_the_backward_are_ignored(op):
    tensors = mhc_calls.draw(op, (2, 3))
    outputs = mhc_calls.forward(op, tensors)
    cotangents = mhc_calls.draw_cotangents(op, outputs)
    arguments = (*tensors.values(), *ATTRIBUTES[op].values())
    for filler in (np.zeros_like, np.ones_like):
        incoming = [cotangents.get(name, filler(value)) for name, value in outputs.items()]
        found = backward(op, arguments, incoming)
        assert found[4:] == (None,) * len(ATTRIBUTES[op])
        assert_same(dict(zip(INPUTS[op], found[:4], strict=True)), mhc_calls.gradients(op, tensors, cotangents))


def loss_gradients(
    op: str,
    tensors: Mapping[str, Any],
    packed: Mapping[str, Any],
    cotangents: Mapping[str, Any],
    names: tuple[str, ...],
) -> dict[str, Any]:
    """Of `sum(output * cotangent)`, summed in float64, with respect to the named tensors."""

    def loss(*values: Any) -> Any:
        given = {**tensors, **dict(zip(names, values, strict=True))}
        found = getattr(custom_ops, op)(**given, scale_value=SCALE, **packed)
        outputs = dict(zip(kl_loss_calls.OUTPUTS, found, strict=True))
        # The last term is there to have something to differentiate where the operator gives no gradient.
        terms = [anp.sum(outputs[name].astype(np.float64) * value) for name, value in cotangents.items()]
        return sum(terms) + 0.0 * anp.sum(values[0].astype(np.float64))

    found = autograd.grad(loss, argnum=tuple(range(len(names))))(*(tensors[name] for name in names))
    return dict(zip(names, found, strict=True))


FORMS = pytest.mark.parametrize(
    "ends", [None, PACKED["ragged"], PACKED["empty in the middle"]], ids=["BSND", "ragged", "empty"]
)


def loss_tensors(op: str, ends: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    shapes = ((2, 2), (2, 3)) if ends is None else ((ends[0][-1],), (ends[1][-1],))
    return kl_loss_calls.draw(op, *shapes, ends, **options)


@FORMS
@pytest.mark.parametrize("factor", [1.0, 3.0, -0.5])
@pytest.mark.parametrize("op", LOSSES)
def test_losses(op, factor, ends):
    """The precomputed gradients times the cotangent of the loss: a scaled loss scales them."""
    tensors, packed = loss_tensors(op, ends)
    outputs = kl_loss_calls.by_name(op, tensors, packed)
    given = loss_gradients(op, tensors, packed, {"loss": factor}, kl_loss_calls.DIFFERENTIABLE)
    for name, value in given.items():
        assert np.any(value)
        np.testing.assert_array_equal(value, outputs[f"d_{name}"] * factor, err_msg=name)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", LOSSES)
def test_losses_in_every_dtype(op, dtype):
    """A power of two scales without rounding, in any of the types."""
    weights_dtype = "float64" if dtype == "float64" else "float32"
    tensors, packed = loss_tensors(op, None, dtype=dtype, weights_dtype=weights_dtype, rope=True)
    outputs = kl_loss_calls.by_name(op, tensors, packed)
    given = loss_gradients(op, tensors, packed, {"loss": 4.0}, kl_loss_calls.DIFFERENTIABLE)
    for name, value in given.items():
        assert value.dtype == tensors[name].dtype
        np.testing.assert_array_equal(value.astype(np.float64), outputs[f"d_{name}"].astype(np.float64) * 4.0)


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("output", ["d_query_index", "d_key_index", "d_weights"])
def test_precomputed_gradients_lead_no_gradient_back(op, output):
    tensors, packed = loss_tensors(op, None)
    alone, with_output = (
        loss_gradients(op, tensors, packed, cotangents, kl_loss_calls.DIFFERENTIABLE)
        for cotangents in ({"loss": 2.0}, {"loss": 2.0, output: 5.0})
    )
    assert_same(with_output, alone)


@pytest.mark.parametrize("op", LOSSES)
def test_what_is_not_differentiable_has_no_gradient(op):
    tensors, packed = loss_tensors(op, None, rope=True)
    names = tuple(name for name in tensors if name not in (*kl_loss_calls.DIFFERENTIABLE, "sparse_indices"))
    assert {"query", "key", "softmax_max", "softmax_sum", "query_rope", "key_rope"} <= set(names)
    for name, value in loss_gradients(op, tensors, packed, {"loss": 1.0}, names).items():
        assert not np.any(value), name


@pytest.mark.parametrize("op", LOSSES)
def test_the_backward_returns_none_for_all_but_the_indexer(op):
    tensors, _ = loss_tensors(op, None)
    outputs = kl_loss_calls.by_name(op, tensors, {})
    incoming = [np.ones_like(value) for value in outputs.values()]
    found = backward(op, (*tensors.values(), SCALE), incoming)
    positions = [list(tensors).index(name) for name in kl_loss_calls.DIFFERENTIABLE]
    assert [position for position, value in enumerate(found) if value is not None] == positions
    for position, name in zip(positions, kl_loss_calls.DIFFERENTIABLE, strict=True):
        np.testing.assert_array_equal(found[position], outputs[f"d_{name}"])


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("name", kl_loss_calls.DIFFERENTIABLE)
def test_losses_by_finite_differences(op, name):
    """Of the public function, with the attention held fixed; the clip of the logarithm is out of reach here."""
    tensors, packed = loss_tensors(op, ([2, 3], [2, 4]))
    places = np.random.default_rng(3).choice(tensors[name].size, size=6, replace=False)
    given = loss_gradients(op, tensors, packed, {"loss": 1.0}, (name,))[name].reshape(-1)

    def loss(changes: Any) -> float:
        moved = tensors[name].copy()
        moved.reshape(-1)[places] += changes
        free = {**tensors, name: moved}
        if op == DENSE:  # the statistics follow the indexer's tensors
            free |= kl_loss_calls.statistics(op, np.random.default_rng(0), free, packed)
        return float(getattr(custom_ops, op)(**free, scale_value=SCALE, **packed)[3][0])

    np.testing.assert_allclose(given[places], finite_differences(loss, np.zeros(6)), rtol=1e-6, atol=1e-8)


def test_post_is_differentiated_in_what_is_asked_for():
    tensors = mhc_calls.draw(POST, (5,))
    cotangent = np.random.default_rng(1).standard_normal(tensors["x"].shape)
    expected = mhc_calls.gradients(POST, tensors, {"out": cotangent})
    for position, name in enumerate(INPUTS[POST]):
        given = autograd.grad(lambda *values: anp.sum(custom_ops.npu_mhc_post(*values) * cotangent), position)(
            *tensors.values()
        )
        np.testing.assert_array_equal(given, expected[name])
