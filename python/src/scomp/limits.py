"""Every limit of the client, with its reason. tests/test_limits.py fails for one that no test names."""

from __future__ import annotations

from typing import Final

REQUESTS_WAITING_MAX: Final = 1024
"""Requests of ours that wait for their answers: the server's own default for one connection. Past it: `Busy`."""

INVOKES_IN_FLIGHT_MAX: Final = 512
"""Calls of ours that are with the server; others wait here. It leaves room for evals, cancels and releases."""

INVOKES_WAITING_MAX: Final = 10_000
"""Calls of ours that wait here. Past it a caller that never looks back would fill the memory: `Busy`."""

EVALS_IN_FLIGHT_MAX: Final = 128
"""Evals that are with the server. Below the 256 outcomes that a session keeps by key, so that none is forgotten
before its answer has arrived, and below the 256 that may queue there."""

EVALS_WAITING_MAX: Final = 10_000
"""Evals that wait here, with those in flight. Past it: `QueueFull`."""

CALLS_WAITING_MAX: Final = 10_000
"""Calls that wait for a connection. Past it: `Busy`."""

INVOKES_RUNNING_MAX: Final = 1024
"""Handlers that run concurrently: every call that one eval may make by default. Others wait in order."""

INVOKES_QUEUED_MAX: Final = 16_384
"""Calls of the server that wait for a handler to end: as many as a server holds back. Past it: `Busy`."""

HANDLER_THREADS_MAX: Final = 64
"""Plain functions that run concurrently, each on a thread. A thread that waits for the server lends its place."""

HANDLER_THREADS_LENT_MAX: Final = 1024
"""Threads that wait for the server: one for every handler that may run."""

MESSAGE_CHARS_MAX: Final = 16 << 20
"""Longest message that is sent: what servers accept by default. Past it they end the connection: `TooLong`."""

MESSAGE_BYTES_MAX: Final = 64 << 20
"""Longest message that is read: the default limit of a server with room for one that is configured higher."""

FRAMES_QUEUED_MAX: Final = 16
"""Frames that a WebSocket reads ahead of us. Further ones stay in the socket, which slows the server down."""

OUTBOX_CHARS_MAX: Final = 64 << 20
"""Texts that wait to be written. Past it nothing is read, because what is read causes further answers."""

REFERENCES_MAX: Final = 10_000
"""Live references, each way: the protocol's own limit. Past it: `TooManyRefs`."""

VALUE_DEPTH_MAX: Final = 128
"""Deepest value that is walked. The server allows 100 and reports more; a level takes up to five of the 1000
frames that Python allows, and the caller needs some too."""

BIGINT_DIGITS_MAX: Final = 10_000
"""Digits of a bigint: the protocol's own limit."""

REPORT_CHARS_MAX: Final = 8_000
"""Longest text of `error.report`: it goes to a model, whose context is expensive."""

REPORT_CAUSES_MAX: Final = 8
"""Causes that a report follows. A chain may be as deep as a value."""

OPENING_S_MAX: Final = 15.0
"""How long connecting and the handshake may take together: a slow network and a busy server, but not a hang."""

CLOSE_S_MAX: Final = 2.0
"""How long a server has to answer a close, and a child to end: a program that ends waits for it."""
