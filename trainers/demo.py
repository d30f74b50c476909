"""Serves a page on which one draws a digit and sees what the network doubts.

    python -m trainers.demo --saved_model=saved_models/digits

Then open http://localhost:8000: the page shows the mean, the vote of each network drawn
and the scores, for a drawing or an image dropped on it; of a calibrated model first of
all the set or the interval that it promises. Needs the extra `demo`.
"""

import dataclasses

from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.signatures import MOST_SAMPLES
from trainers import serve_check
from trainers.config import CheckedConfig, UsageProblem, flag, run_binary

_SECONDS = 30.0


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


def make_server(config: Config):
    """Returns a server that is ready to serve, with its port in `server_port`.

    Raises:
        UsageProblem: If the model or the address cannot be served, or Flask is missing.
    """
    path = serve_check.model_path(config.saved_model)
    try:
        from bhn_tf.demo import LOOPBACK, create_app

        hosts = LOOPBACK if config.host in LOOPBACK else None
        app = create_app(path, config.num_draws, hosts)
    except (ScoringProblem, ImportError) as problem:
        raise UsageProblem(str(problem)) from problem
    from werkzeug import serving

    class Handler(serving.WSGIRequestHandler):
        # A client that sends nothing more does not keep its thread.
        timeout = _SECONDS

    try:
        return serving.make_server(
            config.host, config.port, app, threaded=True, request_handler=Handler
        )
    except (OSError, SystemExit) as error:
        # Werkzeug exits where the port is taken.
        raise UsageProblem(
            f"--host={config.host} --port={config.port} cannot be listened on: is "
            "another program there? --port=0 takes a free one."
        ) from error


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
