"""A builder of LLVM code that computes with vectors of float32, and its compiler.

Vectors have eight numbers; LLVM divides them where the processor's are shorter. No multiplication is fused with an
addition, so results are the same on all processors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from llvmlite import binding, ir

WIDTH = 8
FLOAT, INT = ir.FloatType(), ir.IntType(64)
_INT32 = ir.IntType(32)
_LEAST = -126.0
"""Exponent of the smallest power of two that a float32 has with all its digits."""
_POWERS = (1.0, 0.6931471806, 0.2402265070, 0.0555041087, 0.0096181291, 0.0013333558, 0.0001540353)
"""2**y is the sum of these times 1, y, y**2, …, for y in [0, 1), to float32's precision."""
_ENGINES: list[binding.ExecutionEngine] = []
"""They own the memory of the compiled functions."""


def vector(width: int = WIDTH) -> ir.VectorType:
    """The type of vectors of `width` numbers."""
    return ir.VectorType(FLOAT, width)


def compiled(module: ir.Module, name: str) -> Callable[..., None]:
    """Compile `module`, and return its function `name`, of addresses and integers, for this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
    parsed = binding.parse_assembly(str(module))
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(parsed, passes)
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    kinds = [ctypes.c_int64 if argument.type == INT else ctypes.c_void_p for argument in module.get_global(name).args]
    return ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(name))


class VectorCode(ir.IRBuilder):  # type: ignore[misc]
    """Builds the body of a function, with loops, addresses in arrays, and vectors."""

    def __init__(self, function: ir.Function) -> None:
        self._entry = function.append_basic_block()
        super().__init__(function.append_basic_block())

    def end(self) -> None:
        """Return from the function. Its first block has all variables: LLVM turns them into registers only there."""
        self.ret_void()
        ir.IRBuilder(self._entry).branch(self.function.blocks[1])

    def constant(self, value: float | ir.Value, kind: ir.Type = INT) -> ir.Value:
        """`value`, unless it is code already, as a number, or as all numbers of a vector."""
        if isinstance(value, ir.Value):
            return value
        return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)

    def total(self, *terms: ir.Value | int) -> ir.Value:
        """The sum of integers."""
        return reduce(self.add, map(self.constant, terms))

    def product(self, *factors: ir.Value | int) -> ir.Value:
        """The product of integers."""
        return reduce(self.mul, map(self.constant, factors))

    def divided(self, number: ir.Value, divisor: int) -> tuple[ir.Value, ir.Value]:
        """Quotient and remainder of an integer that is not negative."""
        return self.udiv(number, self.constant(divisor)), self.urem(number, self.constant(divisor))

    def at(self, array: ir.Value, *factors: ir.Value | int) -> ir.Value:
        """The address behind as many numbers of an array as the product of `factors`."""
        return self.gep(array, [self.product(*factors)])

    @contextmanager
    def loop(self, begin: ir.Value | int, end: ir.Value | int, step: int = 1) -> Iterator[ir.Value]:
        """Repeat what is built inside for `begin`, `begin` + `step`, … below `end`."""
        before, (head, body, after) = self.block, (self.append_basic_block() for _ in range(3))
        self.branch(head)
        self.position_at_end(head)
        index = self.phi(INT)
        index.add_incoming(self.constant(begin), before)
        self.cbranch(self.icmp_signed("<", index, self.constant(end)), body, after)
        self.position_at_end(body)
        yield index
        index.add_incoming(self.total(index, step), self.block)
        self.branch(head)
        self.position_at_end(after)

    def variable(self, width: int = WIDTH, value: float = 0.0) -> ir.Value:
        """Memory for a vector, filled with `value`; LLVM makes it a register."""
        with self.goto_block(self._entry):
            place = self.alloca(vector(width))
        self.store(self.constant(value, vector(width)), place)
        return place

    def read(self, place: ir.Value, width: int = WIDTH) -> ir.Value:
        """The vector at the address of a number."""
        return self.load(self.bitcast(place, vector(width).as_pointer()), align=4)

    def write(self, value: ir.Value, place: ir.Value) -> None:
        """Store a vector at the address of a number."""
        self.store(value, self.bitcast(place, value.type.as_pointer()), align=4)

    def spread(self, number: ir.Value, width: int = WIDTH) -> ir.Value:
        """A vector of equal numbers."""
        first = self.insert_element(ir.Constant(vector(width), ir.Undefined), number, ir.Constant(_INT32, 0))
        return self.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT32, width), [0] * width))

    def add_product(self, place: ir.Value, one: ir.Value, other: ir.Value) -> None:
        """Add a product to the variable at `place`."""
        self.store(self.fadd(self.load(place), self.fmul(one, other)), place)

    def larger(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """The larger of two numbers, or of each two of vectors."""
        return self.select(self.fcmp_ordered(">", one, other), one, other)

    def fold(self, operation: Callable[[ir.Value, ir.Value], ir.Value], places: Sequence[ir.Value]) -> ir.Value:
        """One number from all numbers of the variables at `places`, in a fixed order."""
        whole = reduce(operation, map(self.load, places))
        numbers = [self.extract_element(whole, ir.Constant(_INT32, place)) for place in range(WIDTH)]
        return reduce(operation, numbers)

    def power(self, exponents: ir.Value) -> ir.Value:
        """2 to the power of each of `exponents`, which are at most 0."""
        x = self.larger(exponents, self.constant(_LEAST, vector()))
        whole = self.call(self._floor(), [x])
        y, value = self.fsub(x, whole), self.constant(_POWERS[-1], vector())
        for factor in _POWERS[-2::-1]:
            value = self.fadd(self.fmul(value, y), self.constant(factor, vector()))
        bits = ir.VectorType(_INT32, WIDTH)  # those of 2**whole are its exponent
        exponent = self.add(self.fptosi(whole, bits), self.constant(127, bits))
        return self.fmul(value, self.bitcast(self.shl(exponent, self.constant(23, bits)), vector()))

    def _floor(self) -> ir.Function:
        name = f"llvm.floor.v{WIDTH}f32"
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(vector(), [vector()]), name)
