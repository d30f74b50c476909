"""Serves a page on which to draw a digit and see how unsure the network is.

    python -m trainers.demo --saved_model=saved_models/digits

Then open http://localhost:8000: the page shows the mean, the vote of each drawn network
and the scores for a drawing or an image dropped on it; for a calibrated model, the
promised set or interval comes first. `--output=NAME` shows one output of a model with
several. Needs the extra `demo`.
"""

import contextlib
import dataclasses
import ipaddress
import socket
import threading

from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.signatures import MOST_SAMPLES
from trainers import serve_check
from trainers.config import CheckedConfig, UsageProblem, between, flag, run_binary

#: How long a client may be silent; it has twice as long to send its question.
_SECONDS = 30.0
_MOST_CONNECTIONS = 64


@dataclasses.dataclass(frozen=True)
class Config(CheckedConfig):
    """Configuration of `trainers.demo`."""

    saved_model: str = flag(
        "saved_models/digits",
        "A SavedModel of images, a folder of versions of it, or a .keras file.",
    )
    num_draws: int = flag(
        32,
        "S, networks that vote.",
        **between(1, MOST_SAMPLES),
    )
    host: str = flag(
        "localhost",
        "Where to listen; 0.0.0.0 lets other machines ask, too, under any name.",
    )
    port: int = flag(
        8000,
        "Port to listen on; 0 takes a free one.",
        **between(0, 65535),
    )
    output: str = flag("", "Name of the output to show, of a model of several outputs.")


def make_server(config: Config):
    """Returns a server that is ready to serve, with its port in `server_port`.

    Raises:
        UsageProblem: If the model or the address cannot be served, or Flask is missing.
    """
    path = serve_check.model_path(config.saved_model)
    try:
        from bhn_tf.demo import LOOPBACK, create_app

        hosts = _names_of(config.host, LOOPBACK)
        output = config.output or None
        app = create_app(path, config.num_draws, hosts, output=output)
    except (ScoringProblem, ImportError) as problem:
        raise UsageProblem(str(problem)) from problem
    try:
        return _server_class()(config.host, config.port, app)
    except (OSError, SystemExit) as error:
        # Werkzeug exits if the port is taken.
        raise UsageProblem(
            f"--host={config.host} --port={config.port} cannot be listened on: is "
            "another program there? --port=0 takes a free one."
        ) from error


def _names_of(host: str, loopback) -> tuple | None:
    """Names under which the page is served; `None` for any, if others can reach it."""
    host = host.lower()
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return (*loopback, host)
    return loopback if host in loopback else None


def _server_class():
    """The class of a server whose clients cannot hold its threads for ever.

    It is made here, since werkzeug comes with Flask, which may be missing.
    """
    from werkzeug import serving

    class Handler(serving.WSGIRequestHandler):
        """Answers one question, and closes the connection."""

        # Frees the thread of a silent client; `_end` frees that of one that goes on
        # for ever.
        timeout = _SECONDS

        def setup(self):
            super().setup()
            self._end = threading.Timer(2 * _SECONDS, self._hear_no_more)
            self._end.daemon = True
            self._end.start()

        def _hear_no_more(self):
            # The answer to what has arrived may still be sent.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RD)

        def finish(self):
            self._end.cancel()
            super().finish()

    class Server(serving.ThreadedWSGIServer):
        """Closes new connections while `_MOST_CONNECTIONS` are open."""

        def __init__(self, host, port, app):
            super().__init__(host, port, app, Handler)
            self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)

        def process_request(self, request, client_address):
            if self._free.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request, client_address):
            try:
                super().process_request_thread(request, client_address)
            finally:
                self._free.release()

    return Server


def run(config: Config) -> None:
    """Serves until it is interrupted."""
    server = make_server(config)
    # In an address, colons of IPv6 stand in brackets.
    host = f"[{config.host}]" if ":" in config.host else config.host
    print(f"Open http://{host}:{server.server_port} (Ctrl-C ends).", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
