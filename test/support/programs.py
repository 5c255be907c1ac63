"""Programs of the build, run to their end."""
import os
import subprocess


class Programs:
    """@param paths of those that are also known by their names."""

    def __init__(self, paths):
        self.paths = {os.path.basename(path): path for path in paths}

    def run(self, program, *arguments):
        """`program` by its name, or any by its path. @return what it said. Raises where it fails."""
        command = [self.paths.get(program, program), *arguments]
        # Many threads on few cores: an OpenMP thread that spins takes the core from the one that is to run.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}")
        return done.stdout
