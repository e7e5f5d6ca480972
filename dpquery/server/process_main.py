"""How a process of a server begins: it gives up what it does not need, and runs a module.

Libraries start threads as they are imported, and a thread keeps what it has.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

from dpquery.server.sandbox import drop, unplug

if __name__ == "__main__":
    module, settings = sys.argv[1], json.loads(sys.argv[2])
    unplugged = not settings["network"] and unplug()
    drop()
    try:
        import_module(module).main(settings, unplugged=unplugged)
    except BrokenPipeError:  # the server was killed: nobody is there to be told
        os._exit(0)
