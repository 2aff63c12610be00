"""Test vectors: bytes, scripts and what they mean in a dialect, as data, and functions that check
a dialect against them.

The vectors are TOML files in the folder `vectors` of the dialect's package, whose `DialectPackage`
names that package in its field `vectors`. A test of the dialect is then

    def test_the_dialect_does_what_its_vectors_say(): run_vectors(PACKAGE)

or a test for each vector:

    @pytest.mark.parametrize("vector", package_vectors(PACKAGE), ids=str)
    def test_the_dialect_does_what_the_vector_says(vector): check_vector(vector)

A file begins with `module`, the Python module that has the dialect as DIALECT. If the dialect needs
a manifest, `manifest` is its text, for all vectors that have none of their own. Then follow any
number of these tables, each of which is a vector:

    [[read]]        Bytes become messages. The bytes are `payload` (which is framed first) or
                    `bytes` (as they are on the pipe), or `payload_hex` or `bytes_hex`. `means` is
                    the expected message, or a list of messages, in the notation of
                    `exthost.authoring.testing.vector_notation`. Optional:
                      reader     the side that reads, "host" (default) or "guest" (the extension)
                      canonical  true if the other side writes exactly these bytes
                      after      messages that were sent before, by the reader, or in lines as in a
                                 script by the host (`>`) or the extension (`<`)
                      cap        the largest message that is accepted, in bytes
                      end        a part of the reason why the input ends inside a frame
                      answers    the id of the call that is answered by a frame over the limit;
                                 "nothing" if the id cannot be known
                      alone      true if the same bytes must not come twice
    [[handshake]]   `script` results in the offer (the tools, hooks and capabilities that the
                    extension announces) `offer`. `config`, `options` and `handlers` (the host's
                    replies to the extension, by method) are JSON texts.
    [[refusal]]     The handshake in `script` fails with an error of the kind `error` and the code
                    `code`, whose message contains `says`.
    [[operation]]   `operation` (a name that is the same in every dialect, such as "call_tool") or
                    `method`, with `params`, and `script`, has the value `result`, or fails as a
                    refusal does. With a process, it follows the file's first handshake.
    [[meaning]]     `notification` means `means` to the host; "" if it means nothing.
    [[value]]       `function` (module:name), called with the bytes `given` or `given_hex`, returns
                    `result`.

In a script, `>` is a message of the host, `<` one of the extension, and `!` an action that only a
real process can perform (see `testing.scripted_child`). Every vector has a `name`, and `shows`
lists the ids of the requirements that it tests. A vector with `limits` is checked with a
clock that moves on only at each `! silence`, by the limit. Without such a clock it takes as long as
the limit.

In reading order:

    vector         a vector, and functions that load vectors from TOML files
    check          checks vectors, without a process and with one
    read_vector    the table `read`: bytes that become messages
    script_player  plays a script against the generators of a dialect, without a process
    processes      plays a script with a real process
"""

from exthost.authoring.testing.vectors.check import check_vector, check_with_process, run_vectors
from exthost.authoring.testing.vectors.vector import Vector, load_vectors, package_vectors

__all__ = [
    "Vector",
    "check_vector",
    "check_with_process",
    "load_vectors",
    "package_vectors",
    "run_vectors",
]
