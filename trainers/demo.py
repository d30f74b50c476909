"""Serves a page on which one draws a digit and sees what the network doubts.

    python -m trainers.demo --saved_model=saved_models/digits

Then open http://localhost:8000: the page shows the mean, the vote of each network drawn
and the scores, for a drawing or an image dropped on it; of a calibrated model first of
all the set or the interval that it promises. `--output=NAME` shows one output of a
model of several. Needs the extra `demo`.
"""

import contextlib
import dataclasses
import socket
import threading

from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.signatures import MOST_SAMPLES
from trainers import serve_check
from trainers.config import CheckedConfig, UsageProblem, flag, run_binary

#: For which a client may be silent; it has twice as long to send its question.
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
        check=lambda v: 1 <= v <= MOST_SAMPLES,
        advice=f"from 1 to {MOST_SAMPLES}",
    )
    host: str = flag(
        "localhost",
        "Where to listen; 0.0.0.0 lets other machines ask, too, under any name.",
    )
    port: int = flag(
        8000,
        "Port to listen on; 0 takes a free one.",
        check=lambda v: 0 <= v <= 65535,
        advice="from 0 to 65535",
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

        hosts = LOOPBACK if config.host in LOOPBACK else None
        output = config.output or None
        app = create_app(path, config.num_draws, hosts, output=output)
    except (ScoringProblem, ImportError) as problem:
        raise UsageProblem(str(problem)) from problem
    try:
        return _server_class()(config.host, config.port, app)
    except (OSError, SystemExit) as error:
        # Werkzeug exits where the port is taken.
        raise UsageProblem(
            f"--host={config.host} --port={config.port} cannot be listened on: is "
            "another program there? --port=0 takes a free one."
        ) from error


def _server_class():
    """The class of a server whose clients cannot keep its threads.

    Made here: werkzeug comes with Flask, which the other flags do without.
    """
    from werkzeug import serving

    class Handler(serving.WSGIRequestHandler):
        """Answers one question, and closes the connection."""

        # A client that sends nothing more does not keep its thread, nor does one that
        # never ends.
        timeout = _SECONDS

        def setup(self):
            super().setup()
            self._end = threading.Timer(2 * _SECONDS, self._hear_no_more)
            self._end.daemon = True
            self._end.start()

        def _hear_no_more(self):
            # The answer to what has come may still be sent.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RD)

        def finish(self):
            self._end.cancel()
            super().finish()

    class Server(serving.ThreadedWSGIServer):
        """Closes what comes while as many connections as it bears are open."""

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
    print(f"Open http://{config.host}:{server.server_port} (Ctrl-C ends).", flush=True)
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
