"""Forces for another program through a socket: i-PI, or anything that speaks its protocol."""

import argparse
import sys

import numpy as np
from ase import Atoms
from ase.io import read

import mlpot
from mlpot.md.ase_bridge import to_structure
from mlpot.md.ipi import IPIClient, connect

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="potential, .safetensors")
parser.add_argument("struct", help="structure with the server's atoms in its order")
parser.add_argument("--unix", help="name of a Unix socket, as in i-PI's input")
parser.add_argument("--host", default="localhost")
parser.add_argument("--port", type=int, default=31415)
arguments = parser.parse_args()

try:
    structure = read(arguments.struct)
    assert isinstance(structure, Atoms)
    client = IPIClient(mlpot.load(arguments.model), to_structure(structure))
    client.evaluate(structure.positions, np.array(structure.cell))  # compiles what has to be
    told = client.serve(connect(arguments.unix, arguments.host, arguments.port))
except KeyboardInterrupt:
    sys.exit(130)
except Exception as error:  # readers of ASE raise whatever their format trips over
    sys.exit(f"{parser.prog}: error: {error or type(error).__name__}")
end = "" if told else "; the server hung up without an EXIT"  # as ASE's does
print(f"{client.n_evaluations} evaluations{end}")
