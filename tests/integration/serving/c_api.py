"""Asks a SavedModel through TensorFlow's C API, the runtime of TensorFlow Serving.

No Python of TensorFlow is imported: the library inside the wheel is loaded with
`ctypes`. Arguments: the library, the SavedModel, a JSON file with the requests, and a
.npz file for the answers. A request is a dictionary of `feeds` (tensor name to a .npy
file) and `fetch`, a tensor name, under its own name.

With a fifth argument, a number, that many requests follow from four threads at once,
each for 1 to 64 of the rows: they must get the same answers as before. Printed as JSON:
how many did not, and by how many megabytes the process has grown.
"""

import concurrent.futures
import ctypes
import json
import resource
import sys

import numpy as np

FLOAT, INT32 = 1, 3
TYPES = {"float32": FLOAT, "int32": INT32}


class Output(ctypes.Structure):
    """`TF_Output`: a tensor of the graph."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def _library(path):
    library = ctypes.CDLL(path)
    pointer = ctypes.c_void_p
    for name in (
        "NewStatus",
        "NewGraph",
        "NewSessionOptions",
        "LoadSessionFromSavedModel",
        "GraphOperationByName",
        "AllocateTensor",
        "TensorData",
    ):
        getattr(library, f"TF_{name}").restype = pointer
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_Dim.restype = ctypes.c_int64
    library.TF_TensorByteSize.restype = ctypes.c_size_t
    return library


class Session:
    """A session on a SavedModel.

    Args:
        library: Path of `libtensorflow_cc`.
        path: Folder of the SavedModel.
    """

    def __init__(self, library, path):
        self._tf = _library(library)
        status = ctypes.c_void_p(self._tf.TF_NewStatus())
        self._graph = ctypes.c_void_p(self._tf.TF_NewGraph())
        options = ctypes.c_void_p(self._tf.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = ctypes.c_void_p(
            self._tf.TF_LoadSessionFromSavedModel(
                options, None, path.encode(), tags, 1, self._graph, None, status
            )
        )
        self._check(status)

    def run(self, feeds, fetch):
        """Returns the value of a tensor for the values of others; for any thread."""
        tensors = [self._tensor(value) for value in feeds.values()]
        result = ctypes.c_void_p()
        status = ctypes.c_void_p(self._tf.TF_NewStatus())
        self._tf.TF_SessionRun(
            self._session,
            None,
            (Output * len(feeds))(*(self._output(name) for name in feeds)),
            (ctypes.c_void_p * len(feeds))(*tensors),
            len(feeds),
            (Output * 1)(self._output(fetch)),
            ctypes.byref(result),
            1,
            None,
            0,
            None,
            status,
        )
        self._check(status)
        for tensor in tensors:
            self._tf.TF_DeleteTensor(ctypes.c_void_p(tensor))
        rank = self._tf.TF_NumDims(result)
        shape = [self._tf.TF_Dim(result, axis) for axis in range(rank)]
        size = self._tf.TF_TensorByteSize(result)
        data = ctypes.string_at(self._tf.TF_TensorData(result), size)
        self._tf.TF_DeleteTensor(result)
        return np.frombuffer(data, "float32").reshape(shape)

    def _output(self, name):
        operation, index = name.split(":")
        found = self._tf.TF_GraphOperationByName(self._graph, operation.encode())
        assert found, name
        return Output(found, int(index))

    def _tensor(self, value):
        dims = (ctypes.c_int64 * value.ndim)(*value.shape)
        tensor = self._tf.TF_AllocateTensor(
            TYPES[value.dtype.name], dims, value.ndim, ctypes.c_size_t(value.nbytes)
        )
        data = self._tf.TF_TensorData(ctypes.c_void_p(tensor))
        ctypes.memmove(data, value.tobytes(), value.nbytes)
        return tensor

    def _check(self, status):
        if self._tf.TF_GetCode(status):
            raise RuntimeError(self._tf.TF_Message(status).decode())
        self._tf.TF_DeleteStatus(status)


def put_under(session, asked, expected, num_requests):
    """Sends requests for other rows from four threads; returns what was seen."""
    rng = np.random.default_rng(0)
    # Signatures that draw anew have no expected answer.
    names = [name for name in asked if "default" not in name]

    def request(_):
        name = str(rng.choice(names))
        feeds = dict(asked[name]["feeds"])
        (inputs,) = (key for key, value in feeds.items() if value.ndim)
        rows = rng.integers(0, len(feeds[inputs]), rng.integers(1, 65))
        return asked[name]["fetch"], {**feeds, inputs: feeds[inputs][rows]}, name, rows

    def is_wrong(request):
        fetch, feeds, name, rows = request
        found = session.run(feeds, fetch)
        return not np.allclose(found, expected[name][rows], atol=1e-4)

    requests = list(map(request, range(num_requests)))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        num_first = num_requests // 10
        wrong = sum(threads.map(is_wrong, requests[:num_first]))
        before = _peak_megabytes()
        wrong += sum(threads.map(is_wrong, requests[num_first:]))
    return {"wrong": wrong, "grown": _peak_megabytes() - before}


def _peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(library, path, requests, answers, num_requests="0"):
    session = Session(library, path)
    with open(requests) as file:
        asked = json.load(file)
    for request in asked.values():
        request["feeds"] = {k: np.load(v) for k, v in request["feeds"].items()}
    found = {name: session.run(**request) for name, request in asked.items()}
    np.savez(answers, **found)
    if int(num_requests):
        print(json.dumps(put_under(session, asked, found, int(num_requests))))
    assert "tensorflow" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
