"""Client of scomp-serve: evaluate JavaScript in a remote session, with typed bindings and functions both ways.

async with scomp.Client("ws://127.0.0.1:7400") as client:
    total = await client.eval("(await getOrder({ id: 'o_001' })).total")
"""

from . import errors, limits, sync
from .bindings import Binding, Bindings
from .calls import Call
from .client import Approval, ApprovalRequest, Client, State
from .connection import Session
from .console import ConsoleLine
from .errors import *  # noqa: F403
from .errors import HandlerError, ScompError
from .evals import EvalOutput, EvalStats
from .reconnect import Reconnect
from .references import BlockingFunction, RemoteFunction
from .serve import serve, serve_async
from .server import Server
from .transport import Ended
from .values import UNDEFINED, BigInt, JsError, Map, Undefined

__all__ = [
    "UNDEFINED",
    "Approval",
    "ApprovalRequest",
    "BigInt",
    "Binding",
    "Bindings",
    "BlockingFunction",
    "Call",
    "Client",
    "ConsoleLine",
    "Ended",
    "EvalOutput",
    "EvalStats",
    "HandlerError",
    "JsError",
    "Map",
    "Reconnect",
    "RemoteFunction",
    "ScompError",
    "Server",
    "Session",
    "State",
    "Undefined",
    "errors",
    "limits",
    "serve",
    "serve_async",
    "sync",
]
__all__ += errors.__all__
