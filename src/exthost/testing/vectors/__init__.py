"""Vectors: what a dialect says and means, as data, played against its codec and its generators.

They are TOML files in the folder `vectors` of the dialect's package, which names itself in the
field `vectors` of its `DialectPackage`. A test of the dialect is then

    def test_the_dialect_does_what_its_vectors_say(): run_vectors(PACKAGE)

or a test for each vector:

    @pytest.mark.parametrize("vector", package_vectors(PACKAGE), ids=str)
    def test_the_dialect_does_what_the_vector_says(vector): check_vector(vector)

A file begins with `module`, where its DIALECT is, and where the dialect needs one, `manifest`,
the text of a manifest (a vector may have its own). Then it has any number of these tables:

    [[read]]        bytes → messages. `payload` (framed for you) or `bytes` (as on the pipe), or
                    either with `_hex`; `means`: a message, or a list of them (see
                    `exthost.testing.vector_notation`).
                    `reader` = "host" (default) or "guest". `canonical = true`: the other role
                    writes these very bytes. `after`: what was said before, by the reader, or as
                    in a script by `>` the host or `<` the child. `cap`,
                    `end` (a part of why the end is no clean end), `answers` (the call that an
                    over-long frame would have answered), `alone = true` if it cannot come twice.
    [[handshake]]   `script` → `offer`. `config`, `options`, `handlers` are JSON.
    [[refusal]]     `script` → `error`, `code`, `says`.
    [[operation]]   `operation` (a neutral one) or `method`, `params`; `script` → `result`, or as
                    a refusal. In a process it follows the file's first handshake.
    [[meaning]]     `notification` → `means`: what a notification is to the host ("" for nothing).
    [[value]]       `function` (module:name) of the bytes `given` or `given_hex` → `result`.

In a script `>` is what the host says, `<` what the child says, `!` what only a real process can do
(see `exthost.testing.scripted_child`). Every vector has a `name`, and `shows` requirement ids. One
with `limits` is played on a clock that stands still, and moves on by the limit at each `! silence`;
without such a clock it takes as long as the limit says.
"""

from exthost.testing.vectors.check import check_vector, check_with_process, run_vectors
from exthost.testing.vectors.vector import Vector, load_vectors, package_vectors

__all__ = [
    "Vector",
    "check_vector",
    "check_with_process",
    "load_vectors",
    "package_vectors",
    "run_vectors",
]
