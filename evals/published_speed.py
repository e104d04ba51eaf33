"""Time of energy, forces and stress of rattled silicon through an ASE calculator.

    python evals/published_speed.py mlpot sevennet-0 --repeat 3
    SEVENN_PYTHON evals/published_speed.py sevenn 7net-0 --repeat 3 --threads 1

The second runs where torch and sevenn are installed, not mlpot. Wall time and the CPU time of the
process are told: on a busy machine only the latter can be compared, and torch's threads spin while
they wait, so there one thread is the fair number.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

from ase.build import bulk


def calculator(program: str, model: str, threads: int):
    if program == "mlpot":
        from mlpot.calculators import MLPotCalculator

        return MLPotCalculator(model)
    import torch
    from sevenn.calculator import SevenNetCalculator

    torch.set_num_threads(threads)
    return SevenNetCalculator(model, device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", choices=["mlpot", "sevenn"])
    parser.add_argument("model")
    parser.add_argument("--repeat", type=int, default=3, help="of the cubic cell of 8 atoms")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    n = arguments.repeat
    atoms = bulk("Si", a=5.43, cubic=True) * (n, n, n)
    atoms.rattle(0.05, seed=0)
    atoms.calc = calculator(arguments.program, arguments.model, arguments.threads)
    wall, cpu = [], []
    for step in range(arguments.steps):
        # Atoms move a little, as in dynamics, so that nothing is taken from a cache of results.
        atoms.positions[0, 0] += 1e-4 if step % 2 else -1e-4
        start, used = time.perf_counter(), time.process_time()
        energy = atoms.get_potential_energy()
        atoms.get_forces()
        atoms.get_stress()
        wall.append(1e3 * (time.perf_counter() - start))
        cpu.append(1e3 * (time.process_time() - used))
    steady = slice(2, None)
    print(
        f"{arguments.program} {arguments.model}, {len(atoms)} atoms: wall median "
        f"{statistics.median(wall[steady]):.1f} ms, least {min(wall):.1f}; CPU median "
        f"{statistics.median(cpu[steady]):.1f} ms, least {min(cpu):.1f}; energy {energy:.6f} eV"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
