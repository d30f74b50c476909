"""Asks a SavedModel through TensorFlow's C API, the runtime of TensorFlow Serving.

No Python of TensorFlow is imported: the library inside the wheel is loaded with
`ctypes`. Arguments: the library, the SavedModel, a JSON file with the requests, and a
.npz file for the answers. A request is a dictionary of `feeds` (tensor name to a .npy
file) and `fetch`, a tensor name, under its own name.
"""

import ctypes
import json
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
        self._status = ctypes.c_void_p(self._tf.TF_NewStatus())
        self._graph = ctypes.c_void_p(self._tf.TF_NewGraph())
        options = ctypes.c_void_p(self._tf.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = ctypes.c_void_p(
            self._tf.TF_LoadSessionFromSavedModel(
                options, None, path.encode(), tags, 1, self._graph, None, self._status
            )
        )
        self._check()

    def run(self, feeds, fetch):
        """Returns the value of a tensor for the values of others."""
        tensors = [self._tensor(value) for value in feeds.values()]
        result = ctypes.c_void_p()
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
            self._status,
        )
        self._check()
        rank = self._tf.TF_NumDims(result)
        shape = [self._tf.TF_Dim(result, axis) for axis in range(rank)]
        size = self._tf.TF_TensorByteSize(result)
        data = ctypes.string_at(self._tf.TF_TensorData(result), size)
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

    def _check(self):
        if self._tf.TF_GetCode(self._status):
            raise RuntimeError(self._tf.TF_Message(self._status).decode())


def main(library, path, requests, answers):
    session = Session(library, path)
    with open(requests) as file:
        asked = json.load(file)
    found = {}
    for name, request in asked.items():
        feeds = {key: np.load(value) for key, value in request["feeds"].items()}
        found[name] = session.run(feeds, request["fetch"])
    np.savez(answers, **found)
    assert "tensorflow" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
