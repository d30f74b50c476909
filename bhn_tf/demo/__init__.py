"""A web page for asking a served model about images.

Needs the extra `demo`.

Example:
```python
from bhn_tf.demo import create_app

create_app("saved_models/digits").run(port=8000)
```
"""

from bhn_tf.demo.app import LOOPBACK, create_app

__all__ = ["LOOPBACK", "create_app"]
